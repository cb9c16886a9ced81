#include "attune/core/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "attune/core/error.h"

namespace attune::thread_pool_test {

// One thread, as many as pieces, and more threads than this machine has cores.
constexpr int kThreadCounts[] = {1, 2, 3, 16};

TEST(ThreadPool, RunsEveryPieceOnce) {
  for (const int threads : kThreadCounts) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int pieces : {0, 1, 2, 3, 17, 100}) {
      std::vector<std::atomic<int>> counts(static_cast<std::size_t>(pieces));
      pool.run(pieces, [&](int piece) { ++counts[static_cast<std::size_t>(piece)]; });
      for (const auto& count : counts) ASSERT_EQ(count, 1) << threads << " " << pieces;
    }
  }
}

TEST(ThreadPool, PieceBelongsToAThreadByItsNumber) {
  constexpr int kPieces = 10;
  for (const int threads : kThreadCounts) {
    ThreadPool pool(threads);
    std::vector<std::thread::id> first(kPieces);
    for (int round = 0; round < 5; ++round) {
      std::vector<std::thread::id> ran_on(kPieces);
      pool.run(kPieces, [&](int piece) {
        ran_on[static_cast<std::size_t>(piece)] = std::this_thread::get_id();
      });
      if (round == 0) first = ran_on;
      EXPECT_EQ(ran_on, first);
    }
    EXPECT_EQ(first[0], std::this_thread::get_id());
    for (std::size_t i = 0; i < kPieces; ++i) {
      for (std::size_t j = 0; j < kPieces; ++j) {
        const auto count = static_cast<std::size_t>(threads);
        EXPECT_EQ(first[i] == first[j], i % count == j % count) << threads << i << j;
      }
    }
  }
}

TEST(ThreadPool, ThreadsWorkAtTheSameTime) {
  ThreadPool pool(3);
  std::atomic<int> arrived = 0;
  // Each waits for the others: with fewer than three threads at work this would never end.
  pool.run(3, [&](int) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 3);
}

TEST(ThreadPool, SeesWhatWasWrittenBeforeAndShowsWhatWasWritten) {
  for (const int threads : {2, 3}) {
    ThreadPool pool(threads);
    std::vector<int> values(7, 0);  // not atomic: run() itself must order the accesses
    for (int round = 0; round < 2000; ++round) {
      pool.run(7, [&](int piece) { ++values[static_cast<std::size_t>(piece)]; });
      for (int& value : values) value *= 2;
      for (int& value : values) value -= value / 2;
    }
    for (const int value : values) EXPECT_EQ(value, 2000);
  }
}

TEST(ThreadPool, WakesThreadsThatWentToSleep) {
  ThreadPool pool(2);
  std::atomic<int> count = 0;
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far beyond the time of spinning
    pool.run(2, [&](int piece) {
      if (piece == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++count;
    });
  }
  EXPECT_EQ(count, 10);
}

TEST(ThreadPool, RethrowsTheExceptionOfTheLowestPieceAfterAllHaveRun) {
  for (const int threads : kThreadCounts) {
    ThreadPool pool(threads);
    std::atomic<int> count = 0;
    try {
      pool.run(12, [&](int piece) {
        ++count;
        if (piece == 4 || piece == 5 || piece == 11) throw ValueError(std::to_string(piece));
      });
      FAIL() << "nothing was thrown";
    } catch (const ValueError& error) {
      EXPECT_STREQ(error.what(), "4") << threads;
    }
    EXPECT_EQ(count, 12);
    EXPECT_NO_THROW(pool.run(12, [&](int) { ++count; }));
    EXPECT_EQ(count, 24);
  }
}

TEST(ThreadPool, RunInsideRunIsAnError) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    EXPECT_THROW(pool.run(2, [&](int) { pool.run(1, [](int) {}); }), UsageError);
    int count = 0;
    pool.run(1, [&](int) { ++count; });
    EXPECT_EQ(count, 1);
  }
}

TEST(ThreadPool, RefusesLessThanOneThread) {
  try {
    ThreadPool pool(0);
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "threads: 0, expected 1 or more");
  }
}

TEST(ThreadPool, EndsWithoutEverRunning) {
  for (int round = 0; round < 20; ++round) ThreadPool pool(3);
}

TEST(AvailableCores, IsBetweenOneAndTheCpusOfTheMachine) {
  const int cores = ThreadPool::available_cores();
  EXPECT_GE(cores, 1);
  EXPECT_LE(cores, static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(AvailableCores, FollowsTheAffinityMask) {
  int cores = 0;
  // The mask belongs to the thread, so that the other tests keep theirs.
  std::thread([&] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    cores = ThreadPool::available_cores();
  }).join();
  EXPECT_EQ(cores, 1);
}

}  // namespace attune::thread_pool_test
