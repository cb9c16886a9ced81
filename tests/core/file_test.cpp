#include "attune/core/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "attune/core/error.h"

namespace attune::file_test {

namespace fs = std::filesystem;

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const IoError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// What `f` returns in a process of its own.
int in_child(const std::function<int()>& f) {
  const pid_t child = fork();
  if (child == 0) {
    int result = 99;
    try {
      result = f();
    } catch (...) {
    }
    _exit(result);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// In a child only: files may grow to this size, and writing beyond is an error rather than a
// signal.
void limit_file_size(rlim_t bytes) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string name = (fs::temp_directory_path() / "attune-file-test-XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~FileTest() override { fs::remove_all(directory_); }

  [[nodiscard]] fs::path at(const char* name) const { return directory_ / name; }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }

  fs::path directory_;
};

using ReadFile = FileTest;
using WriteFileAtomically = FileTest;
using LinkOrCopy = FileTest;
using LineLogTest = FileTest;
using DirectoryLockTest = FileTest;

TEST_F(ReadFile, ReturnsEveryByte) {
  for (const std::size_t size : {0u, 1u, 4095u, 4096u, 4097u, 1000003u}) {
    std::string bytes(size, 'x');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 % 256);
    write_file_atomically(at("file"), bytes);
    EXPECT_EQ(read_file(at("file")), bytes);
  }
}

TEST_F(ReadFile, NamesAMissingFile) {
  EXPECT_EQ(message_of([&] { (void)read_file(at("none")); }),
            "read: '" + at("none").string() + "': No such file or directory");
}

TEST_F(ReadFile, RefusesADirectory) {
  EXPECT_EQ(message_of([&] { (void)read_file(directory_); }),
            "read: '" + directory_.string() + "': Is a directory");
}

// A pipe has no size and hands over a part at a time.
TEST_F(ReadFile, RefusesADeviceWithoutAnEnd) {
  EXPECT_EQ(message_of([] { (void)read_file("/dev/zero"); }), "read: '/dev/zero': File too large");
  EXPECT_EQ(read_file("/dev/null"), "");
}

TEST_F(ReadFile, ReadsAPipeToItsEnd) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  const std::string bytes(300000, 'p');
  std::thread writer([&] {
    LineLog log(at("pipe"));
    log.write(bytes);
  });
  EXPECT_EQ(read_file(at("pipe")), bytes + "\n");
  writer.join();
}

TEST_F(WriteFileAtomically, ReplacesTheContentAndLeavesNothingBeside) {
  write_file_atomically(at("file"), "first, the longer one");
  write_file_atomically(at("file"), "second");
  EXPECT_EQ(read_file(at("file")), "second");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WriteFileAtomically, WorksForANameWithoutDirectory) {
  EXPECT_EQ(in_child([&] {
              fs::current_path(directory_);
              write_file_atomically("plain", "here");
              return 0;
            }),
            0);
  EXPECT_EQ(read_file(at("plain")), "here");
}

// howervoo/speechturn#15: a process killed while writing leaves a temporary.
TEST_F(WriteFileAtomically, ReplacesAStaleTemporary) {
  write_file_atomically(at("file.tmp"), std::string(1000, 's'));
  write_file_atomically(at("file"), "new");
  EXPECT_EQ(read_file(at("file")), "new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WriteFileAtomically, DoesNotFollowALinkAtTheTemporary) {
  write_file_atomically(at("precious"), "kept");
  fs::create_symlink(at("precious"), at("file.tmp"));
  write_file_atomically(at("file"), "new");
  EXPECT_EQ(read_file(at("precious")), "kept");
  EXPECT_EQ(read_file(at("file")), "new");
}

// Lightning-AI/pytorch-lightning#688, facebookresearch/metaseq#53.
TEST_F(WriteFileAtomically, KeepsTheOldFileWhenThereIsNoRoom) {
  write_file_atomically(at("file"), "old");
  const int result = in_child([&] {
    limit_file_size(10000);
    const std::string message =
        message_of([&] { write_file_atomically(at("file"), std::string(20000, 'n')); });
    return message == "write: '" + at("file").string() + "': File too large" ? 0 : 1;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(read_file(at("file")), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WriteFileAtomically, NeverShowsAHalfWrittenFile) {  // B40
  const std::string old_bytes(1 << 20, 'o');
  const std::string new_bytes(1 << 20, 'n');
  write_file_atomically(at("file"), old_bytes);
  for (int round = 0; round < 8; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) {
        write_file_atomically(at("file"), new_bytes);
        write_file_atomically(at("file"), old_bytes);
      }
    }
    usleep(static_cast<useconds_t>(1000 + 3170 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string found = read_file(at("file"));
    EXPECT_TRUE(found == old_bytes || found == new_bytes) << found.size();
  }
  write_file_atomically(at("file"), "after");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WriteFileAtomically, NamesAMissingDirectory) {
  const fs::path missing = directory_ / "gone";
  EXPECT_EQ(message_of([&] { write_file_atomically(missing / "file", "x"); }),
            "write: '" + missing.string() + "': No such file or directory");
  EXPECT_FALSE(fs::exists(missing));
}

TEST_F(WriteFileAtomically, RefusesADirectory) {
  fs::create_directory(at("sub"));
  EXPECT_EQ(message_of([&] { write_file_atomically(at("sub"), "x"); }),
            "write: '" + at("sub").string() + "': Is a directory");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WriteFileAtomically, FailsInAReadOnlyDirectory) {  // B40
  if (geteuid() == 0) GTEST_SKIP() << "nothing is read-only for root";
  write_file_atomically(at("file"), "old");
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THROW(write_file_atomically(at("file"), "new"), IoError);
  EXPECT_EQ(read_file(at("file")), "old");
  fs::permissions(directory_, fs::perms::owner_all);
}

TEST_F(LinkOrCopy, GivesASecondNameThatTheFirstMayLeave) {
  write_file_atomically(at("file"), "old");
  link_or_copy(at("file"), at("kept"));
  EXPECT_EQ(fs::hard_link_count(at("file")), 2u);
  write_file_atomically(at("file"), "new");
  EXPECT_EQ(read_file(at("kept")), "old");
  EXPECT_EQ(read_file(at("file")), "new");
  EXPECT_EQ(entries(), 2u);
}

TEST_F(LinkOrCopy, ReplacesWhatStoodUnderTheName) {
  write_file_atomically(at("file"), "this");
  write_file_atomically(at("kept"), "another one");
  write_file_atomically(at("kept.tmp"), "stale");
  for (int repetition = 0; repetition < 2;
       ++repetition) {  // the second time it is one file already
    link_or_copy(at("file"), at("kept"));
    EXPECT_EQ(read_file(at("kept")), "this");
    EXPECT_EQ(fs::hard_link_count(at("file")), 2u);
    EXPECT_EQ(entries(), 2u);
  }
}

// No file has names on two file systems.
TEST_F(LinkOrCopy, CopiesWhereThereCanBeNoLink) {
  struct stat here {};
  struct stat there {};
  const bool is_apart = stat(directory_.c_str(), &here) == 0 && stat("/dev/shm", &there) == 0 &&
                        here.st_dev != there.st_dev;
  if (!is_apart) GTEST_SKIP() << "no second file system at /dev/shm";
  std::string name = "/dev/shm/attune-file-test-XXXXXX";
  const fs::path other = mkdtemp(name.data());
  write_file_atomically(at("file"), "content");
  link_or_copy(at("file"), other / "kept");
  EXPECT_EQ(read_file(other / "kept"), "content");
  EXPECT_FALSE(fs::exists(other / "kept.tmp"));
  fs::remove_all(other);
}

TEST_F(LinkOrCopy, FailuresLeaveWhatWasThere) {
  write_file_atomically(at("kept"), "old");
  EXPECT_EQ(message_of([&] { link_or_copy(at("none"), at("kept")); }),
            "read: '" + at("none").string() + "': No such file or directory");
  EXPECT_EQ(read_file(at("kept")), "old");
  fs::create_directory(at("sub"));
  EXPECT_EQ(message_of([&] { link_or_copy(at("kept"), at("sub")); }),
            "link: '" + at("sub").string() + "': Is a directory");
  EXPECT_EQ(entries(), 2u);
}

TEST_F(LineLogTest, AppendsWholeLinesAtOnce) {
  LineLog log(at("log"));
  log.write("one");
  EXPECT_EQ(read_file(at("log")), "one\n");
  log.write("");
  log.sync();
  EXPECT_EQ(read_file(at("log")), "one\n\n");
}

TEST_F(LineLogTest, ContinuesAnExistingFile) {
  LineLog(at("log")).write("one");
  LineLog(at("log")).write("two");
  EXPECT_EQ(read_file(at("log")), "one\ntwo\n");
}

TEST_F(LineLogTest, NamesTheFileThatCannotBeOpened) {
  EXPECT_EQ(message_of([&] { LineLog log(directory_ / "gone" / "log"); }),
            "log: '" + (directory_ / "gone" / "log").string() + "': No such file or directory");
}

TEST_F(LineLogTest, ReportsAFileThatCannotGrow) {
  const int result = in_child([&] {
    LineLog log(at("log"));
    log.write("first");
    limit_file_size(100);
    // The system takes what fits and refuses the rest: a short write followed by an error.
    const std::string message = message_of([&] { log.write(std::string(200, 'x')); });
    return message == "log: '" + at("log").string() + "': File too large" ? 0 : 1;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(read_file(at("log")), "first\n" + std::string(94, 'x'));
}

TEST_F(LineLogTest, ReportsAFullDevice) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  LineLog log("/dev/full");
  EXPECT_EQ(message_of([&] { log.write("x"); }), "log: '/dev/full': No space left on device");
}

TEST_F(LineLogTest, SyncOfADeviceIsNoError) {
  LineLog log("/dev/null");
  log.write("x");
  EXPECT_NO_THROW(log.sync());
}

// Signals interrupt the writer, blocked at a pipe that is full, again and again.
TEST_F(LineLogTest, SignalsDoNotTearALine) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  const std::string line(1 << 20, 'l');
  const pid_t child = fork();
  if (child == 0) {
    struct sigaction action {};
    action.sa_handler = [](int) {};  // without SA_RESTART: calls return EINTR or a part
    sigaction(SIGUSR1, &action, nullptr);
    try {
      LineLog(at("pipe")).write(line);
    } catch (const IoError&) {
      _exit(1);
    }
    _exit(0);
  }
  std::thread disturber([child] {
    for (int i = 0; i < 30; ++i) {
      usleep(1000);
      if (i >= 10) kill(child, SIGUSR1);
    }
  });
  std::string found;
  {
    FILE* pipe = fopen(at("pipe").c_str(), "rb");
    ASSERT_NE(pipe, nullptr);
    std::string part(40000, '\0');
    for (;;) {
      const std::size_t count = fread(part.data(), 1, part.size(), pipe);
      if (count == 0) break;
      found.append(part, 0, count);
      usleep(1000);
    }
    fclose(pipe);
  }
  disturber.join();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(found, line + "\n");
}

TEST_F(DirectoryLockTest, RefusesASecondProcess) {
  const DirectoryLock lock(directory_);
  const int result = in_child([&] {
    const std::string message = message_of([&] { const DirectoryLock second(directory_); });
    return message == "lock: run directory '" + directory_.string() +
                          "' is in use by another process, expected it to be free"
               ? 0
               : 1;
  });
  EXPECT_EQ(result, 0);
}

TEST_F(DirectoryLockTest, IsFreeAfterItsEnd) {
  { const DirectoryLock lock(directory_); }
  EXPECT_NO_THROW(DirectoryLock{directory_});
}

TEST_F(DirectoryLockTest, IsFreeAfterItsProcessWasKilled) {
  EXPECT_EQ(in_child([&]() -> int {
              const DirectoryLock lock(directory_);
              raise(SIGKILL);
              return 0;
            }),
            1000 + SIGKILL);
  EXPECT_NO_THROW(DirectoryLock{directory_});
}

TEST_F(DirectoryLockTest, NamesAMissingDirectory) {
  const fs::path missing = directory_ / "gone";
  EXPECT_EQ(message_of([&] { const DirectoryLock lock(missing); }),
            "lock: '" + (missing / ".lock").string() + "': No such file or directory");
}

}  // namespace attune::file_test
