#pragma once

#include <functional>
#include <memory>

namespace attune {

// Persistent threads that run numbered pieces of work. Piece i runs on thread i mod threads, so
// the assignment never depends on timing; the calling thread is thread 0 and works too.
class ThreadPool final {
 public:
  // Throws ConfigError for threads < 1 or more than the system has.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const;
  // Calls work(i) for each i in [0, pieces) and returns when all are done. An exception is rethrown
  // here after all have ended: that of the lowest piece. Not reentrant: a run() inside another
  // throws UsageError.
  void run(int pieces, const std::function<void(int)>& work);

  // Physical cores that this process may run on (its affinity mask, SMT siblings counted once), at
  // least 1.
  [[nodiscard]] static int available_cores();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attune
