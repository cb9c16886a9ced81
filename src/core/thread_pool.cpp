#include "attune/core/thread_pool.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "attune/core/error.h"

namespace attune {
namespace {

// Blocking and waking a thread costs tens of microseconds, more than a small piece of work; so a
// waiting thread first looks for this long, as long as it takes no core from anyone.
constexpr std::chrono::microseconds kSpinTime{50};
constexpr int kLooksPerClock = 64;

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True as soon as `ready()`, false when the time is over.
template <class Ready>
bool spin_until(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int look = 0; look < kLooksPerClock; ++look) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

struct Failure {
  int piece = std::numeric_limits<int>::max();
  std::exception_ptr exception;
};

// The CPUs that the calling thread may run on; empty where the system does not tell.
std::vector<int> allowed_cpus() {
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 20; capacity *= 2) {
    const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(capacity),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    if (!set) return {};
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) != 0) continue;  // more CPUs than capacity
    std::vector<int> cpus;
    for (std::size_t cpu = 0; cpu < static_cast<std::size_t>(capacity); ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
  }
  return {};
}

// CPUs of one core list the same siblings. Without the list each CPU counts as a core.
std::string core_of(int cpu) {
  std::ifstream file(
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  std::string siblings;
  if (!std::getline(file, siblings) || siblings.empty()) return fmt::format("cpu{}", cpu);
  return siblings;
}

}  // namespace

// One run is one generation. run() publishes the work and raises `generation`; each worker does its
// pieces and lowers `running`; whoever lowers it to 0 ends the run. The two counters are atomic, so
// that they can be watched without the mutex, and change under the mutex where someone may sleep on
// them, so that no waking is lost.
struct ThreadPool::State {
  explicit State(int thread_count)
      : threads(thread_count), spin(thread_count <= available_cores()), failures(index(threads)) {}
  ~State();

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  void start_workers();
  void work_loop(int thread);
  void do_pieces(int thread);
  void wait_for_workers();
  void rethrow_lowest();

  const int threads;
  const bool spin;
  std::vector<std::thread> workers;
  std::atomic<bool> busy = false;

  // Written by run() while the workers rest, read by them after they saw the new generation.
  const std::function<void(int)>* work = nullptr;
  int pieces = 0;
  bool stop = false;
  std::vector<Failure> failures;  // of each thread, its lowest piece

  std::mutex mutex;
  std::condition_variable started;
  std::condition_variable finished;
  std::atomic<std::uint32_t> generation = 0;
  std::atomic<int> running = 0;
};

ThreadPool::State::~State() {
  {
    const std::lock_guard lock(mutex);
    stop = true;
    generation.fetch_add(1, std::memory_order_release);
  }
  started.notify_all();
  for (std::thread& worker : workers) worker.join();
}

void ThreadPool::State::start_workers() {
  workers.reserve(index(threads - 1));
  for (int thread = 1; thread < threads; ++thread) {
    try {
      workers.emplace_back([this, thread] { work_loop(thread); });
    } catch (const std::system_error& error) {
      throw ConfigError(fmt::format("threads: {} asked for, the system gave {}: {}", threads,
                                    thread, error.code().message()));
    }
  }
}

void ThreadPool::State::work_loop(int thread) {
  std::uint32_t seen = 0;
  const auto is_new = [&] { return generation.load(std::memory_order_acquire) != seen; };
  for (;;) {
    if (!spin || !spin_until(is_new)) {
      std::unique_lock lock(mutex);
      started.wait(lock, is_new);
    }
    ++seen;
    if (stop) return;
    do_pieces(thread);
    if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      // The empty section lets run(), which may be between its look at `running` and its sleep,
      // fall asleep first.
      { const std::lock_guard lock(mutex); }
      finished.notify_one();
    }
  }
}

void ThreadPool::State::do_pieces(int thread) {
  Failure& failure = failures[index(thread)];
  for (std::int64_t piece = thread; piece < pieces; piece += threads) {
    try {
      (*work)(static_cast<int>(piece));
    } catch (...) {
      if (!failure.exception) failure = {static_cast<int>(piece), std::current_exception()};
    }
  }
}

void ThreadPool::State::wait_for_workers() {
  const auto is_done = [&] { return running.load(std::memory_order_acquire) == 0; };
  if (spin && spin_until(is_done)) return;
  std::unique_lock lock(mutex);
  finished.wait(lock, is_done);
}

void ThreadPool::State::rethrow_lowest() {
  const auto lowest =
      std::min_element(failures.begin(), failures.end(),
                       [](const Failure& a, const Failure& b) { return a.piece < b.piece; });
  const std::exception_ptr exception = lowest->exception;
  if (!exception) return;
  std::fill(failures.begin(), failures.end(), Failure{});
  std::rethrow_exception(exception);
}

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) {
    throw ConfigError(fmt::format("threads: {}, expected 1 or more", threads));
  }
  state_ = std::make_unique<State>(threads);
  state_->start_workers();
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return state_->threads; }

void ThreadPool::run(int pieces, const std::function<void(int)>& work) {
  State& state = *state_;
  if (state.busy.exchange(true)) {
    throw UsageError("thread pool: run() inside run(), expected one at a time");
  }
  struct Release {
    std::atomic<bool>& busy;
    ~Release() { busy = false; }
  } const release{state.busy};

  // The workers rest, so these need no lock by themselves; the store to `generation` publishes
  // them.
  state.work = &work;
  state.pieces = pieces;
  const bool alone = state.threads == 1 || pieces <= 1;  // piece 0 belongs to this thread
  if (!alone) {
    state.running.store(state.threads - 1, std::memory_order_relaxed);
    {
      const std::lock_guard lock(state.mutex);
      state.generation.fetch_add(1, std::memory_order_release);
    }
    state.started.notify_all();
  }
  state.do_pieces(0);
  if (!alone) state.wait_for_workers();
  state.rethrow_lowest();
}

int ThreadPool::available_cores() {
  std::set<std::string> cores;
  for (const int cpu : allowed_cpus()) cores.insert(core_of(cpu));
  return std::max(1, static_cast<int>(cores.size()));
}

}  // namespace attune
