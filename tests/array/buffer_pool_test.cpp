#include "attune/array/buffer_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "attune/array/array.h"

namespace attune::buffer_pool_test {

using buffer_pool::statistics;

std::int64_t live_bytes() { return statistics().live_bytes; }

// Four block sizes a power of two: 64, 80, 96, 112, 128, 160, ...; found by trying them one after
// another.
std::int64_t block_bytes(std::int64_t bytes) {
  std::int64_t power = 64;
  while (true) {
    for (std::int64_t quarter = 4; quarter < 8; ++quarter) {
      if (power / 4 * quarter >= bytes) return power / 4 * quarter;
    }
    power *= 2;
  }
}

TEST(BufferPool, LiveBytesAreExactInSizeClasses) {
  const std::int64_t before = live_bytes();
  for (std::int64_t size = 0; size < 5000; size += 7) {
    const Array array = Array::uninitialized({size}, DType::float32);
    ASSERT_EQ(live_bytes() - before, block_bytes(4 * size)) << size;
  }
  EXPECT_EQ(live_bytes(), before);
}

TEST(BufferPool, ABlockWastesAtMostAFifthAboveTheSmallest) {
  const std::int64_t before = live_bytes();
  for (std::int64_t size = 17; size < 100000; size = size * 9 / 8 + 1) {
    const Array array = Array::uninitialized({size}, DType::float32);
    const std::int64_t block = live_bytes() - before;
    ASSERT_GE(block, 4 * size);
    ASSERT_LT(block - 4 * size, block / 5) << size;
  }
}

TEST(BufferPool, CopiesCountOnce) {
  const std::int64_t before = live_bytes();
  std::optional<Array> array = Array::zeros({1024}, DType::float32);
  const Array copy = *array;
  const Array reshaped = copy.reshaped({32, 32});
  EXPECT_EQ(live_bytes() - before, 4096);
  array.reset();
  EXPECT_EQ(live_bytes() - before, 4096);
}

TEST(BufferPool, PeakIsTheLargestSinceTheReset) {
  const std::int64_t before = live_bytes();
  buffer_pool::reset_peak();
  constexpr std::int64_t kMegabyte = 1 << 20;
  {
    const Array a = Array::uninitialized({kMegabyte}, DType::float32);
    { const Array b = Array::uninitialized({2 * kMegabyte}, DType::float32); }
    const Array c = Array::uninitialized({kMegabyte}, DType::float32);
  }
  EXPECT_NEAR(static_cast<double>(statistics().peak_bytes - before), 12.0 * kMegabyte, 65536);
  buffer_pool::reset_peak();
  EXPECT_NEAR(static_cast<double>(statistics().peak_bytes - before), 0, 65536);
}

TEST(BufferPool, AFreedBlockIsHandedOutAgain) {
  const float* first = nullptr;
  {
    const Array array = Array::uninitialized({1000}, DType::float32);
    first = array.data<float>().data();
  }
  const std::int64_t allocations = statistics().system_allocations;
  const Array array = Array::uninitialized({1000}, DType::float32);
  EXPECT_EQ(array.data<float>().data(), first);
  EXPECT_EQ(statistics().system_allocations, allocations);
}

TEST(BufferPool, TrimGivesFreeBlocksBack) {
  { const Array array = Array::uninitialized({1 << 20}, DType::float64); }
  const std::int64_t before = statistics().system_bytes;
  const Array kept = Array::full({3}, 5, DType::float32);
  buffer_pool::trim();
  EXPECT_LE(statistics().system_bytes, before - (8 << 20));
  EXPECT_EQ(kept.at({2}), 5);
}

// A thread that does what it is told, one job after another: the workers of a training run.
class Worker final {
 public:
  ~Worker() {
    run([this] { stop_ = true; });
    thread_.join();
  }
  template <class F>
  void run(F job) {
    std::unique_lock lock(mutex_);
    job_ = std::move(job);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !job_; });
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      changed_.wait(lock, [this] { return job_ != nullptr; });
      job_();
      job_ = nullptr;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool stop_ = false;
  std::thread thread_{[this] { loop(); }};  // last: it uses the others
};

TEST(BufferPool, WhatAWorkerAllocatesAndMainFreesComesBackToTheWorker) {
  Worker worker;
  const std::int64_t before = live_bytes();
  std::int64_t steady = 0;
  for (int step = 0; step < 50; ++step) {
    std::vector<Array> gradients;
    worker.run([&] {
      for (std::int64_t i = 1; i <= 20; ++i) {
        const Array scratch = Array::zeros({i * 211}, DType::float32);
        gradients.push_back(Array::full({i * 101}, step, DType::float32));
      }
    });
    for (const Array& gradient : gradients) ASSERT_EQ(gradient.at({0}), step);
    gradients.clear();
    if (step == 1) steady = statistics().system_allocations;
    ASSERT_EQ(live_bytes(), before);
  }
  EXPECT_EQ(statistics().system_allocations, steady);
}

TEST(BufferPool, WhatMainAllocatesAndAWorkerFreesComesBackToMain) {
  Worker worker;
  std::int64_t steady = 0;
  for (int step = 0; step < 50; ++step) {
    std::vector<Array> batch;
    for (std::int64_t i = 1; i <= 20; ++i) batch.push_back(Array::zeros({i * 97}, DType::float32));
    worker.run([&] { batch.clear(); });
    if (step == 1) steady = statistics().system_allocations;
  }
  EXPECT_EQ(statistics().system_allocations, steady);
}

TEST(BufferPool, ANewThreadTakesOverTheBlocksOfOneThatEnded) {
  const auto work = [] { const Array array = Array::zeros({123457}, DType::float64); };
  std::thread(work).join();
  const std::int64_t allocations = statistics().system_allocations;
  for (int i = 0; i < 5; ++i) std::thread(work).join();
  EXPECT_EQ(statistics().system_allocations, allocations);
}

TEST(BufferPool, AnArrayOutlivesTheThreadThatMadeIt) {
  const std::int64_t before = live_bytes();
  Array array;
  std::thread([&] { array = Array::full({1031}, 3, DType::float32); }).join();
  EXPECT_EQ(array.at({1030}), 3);
  array = Array();
  EXPECT_EQ(live_bytes(), before);
}

// Arrays pass round a ring of threads, so that every one frees blocks of the others while it
// allocates.
TEST(BufferPool, ThreadsThatShareAndFreeEachOthersArraysKeepTheCountExact) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  const std::int64_t before = live_bytes();
  const Array common = Array::full({17}, 42, DType::float32);
  std::vector<std::vector<Array>> boxes(kThreads);
  std::atomic<int> wrong{0};
  std::barrier step(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        std::vector<Array> mine{common};
        for (std::int64_t i = 1; i < 12; ++i) {
          mine.push_back(Array::full({i * 37}, t + 1000 * round, DType::float32));
        }
        boxes[static_cast<std::size_t>((t + 1) % kThreads)] = std::move(mine);
        step.arrive_and_wait();
        const int sender = (t + kThreads - 1) % kThreads;
        std::vector<Array> received = std::move(boxes[static_cast<std::size_t>(t)]);
        step.arrive_and_wait();
        if (received[0].at({16}) != 42) ++wrong;
        for (std::size_t i = 1; i < received.size(); ++i) {
          if (received[i].at({0}) != sender + 1000 * round) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(common.is_shared());
  EXPECT_EQ(live_bytes(), before + block_bytes(17 * 4));
}

}  // namespace attune::buffer_pool_test
