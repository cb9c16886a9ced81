#include "attune/core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "attune/core/error.h"

namespace attune {
namespace {

// Of what has no size: a pipe may be a text, /dev/zero has no end.
constexpr std::size_t kMostStreamBytes = std::size_t{1} << 28;
constexpr mode_t kFileMode = 0666;  // narrowed by the umask

[[noreturn]] void fail(const char* operation, const std::filesystem::path& path, int error) {
  throw IoError(fmt::format("{}: '{}': {}", operation, path.string(),
                            std::generic_category().message(error)));
}

class Descriptor final {
 public:
  Descriptor(const char* operation, const std::filesystem::path& path, int flags)
      : descriptor_(open(path.c_str(), flags | O_CLOEXEC, kFileMode)) {
    if (descriptor_ < 0) fail(operation, path, errno);
  }
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

// A write may be cut short by a signal, a full disk or a size limit; the next one then tells the
// reason.
void write_all(const char* operation, const std::filesystem::path& path, int descriptor,
               std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0) {
      fail(operation, path, ENOSPC);
    } else if (errno != EINTR) {
      fail(operation, path, errno);
    }
  }
}

// Pipes, devices and some file systems cannot be synced and say EINVAL: there is nothing to do for
// them.
void sync_or_fail(const char* operation, const std::filesystem::path& path, int descriptor) {
  while (fsync(descriptor) != 0) {
    if (errno == EINVAL) return;
    if (errno != EINTR) fail(operation, path, errno);
  }
}

bool names_directory(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

std::filesystem::path temporary_of(std::filesystem::path path) {
  path += ".tmp";
  return path;
}

// Errors name `path`, the file that was meant.
void write_temporary(const std::filesystem::path& path, const std::filesystem::path& temporary,
                     std::string_view bytes) {
  // Removed, not truncated: what stands there may be a link.
  if (unlink(temporary.c_str()) != 0 && errno != ENOENT) fail("write", temporary, errno);
  Descriptor file("write", temporary, O_WRONLY | O_CREAT | O_EXCL);
  write_all("write", path, file.get(), bytes);
  sync_or_fail("write", path, file.get());
  // Network file systems report a full disk as late as here.
  if (close(file.release()) != 0 && errno != EINTR) fail("write", path, errno);
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  if (names_directory(path)) fail("read", path, EISDIR);
  const Descriptor file("read", path, O_RDONLY);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) fail("read", path, errno);

  // The size is a hint: pipes have none, and a file may grow meanwhile. One byte more meets the end
  // without growing.
  std::string bytes(static_cast<std::size_t>(std::max<off_t>(status.st_size, 4095)) + 1, '\0');
  std::size_t filled = 0;
  for (;;) {
    if (filled == bytes.size()) {
      if (!S_ISREG(status.st_mode) && filled >= kMostStreamBytes) fail("read", path, EFBIG);
      bytes.resize(2 * bytes.size());
    }
    const ssize_t count = read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (count == 0) break;
    if (count > 0) {
      filled += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      fail("read", path, errno);
    }
  }
  bytes.resize(filled);
  return bytes;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  if (names_directory(path)) fail("write", path, EISDIR);
  const std::filesystem::path parent = parent_of(path);
  const Descriptor directory("write", parent, O_RDONLY | O_DIRECTORY);
  const std::filesystem::path temporary = temporary_of(path);
  try {
    write_temporary(path, temporary, bytes);
    if (rename(temporary.c_str(), path.c_str()) != 0) fail("write", path, errno);
  } catch (const IoError&) {
    unlink(temporary.c_str());
    throw;
  }
  sync_or_fail("write", parent, directory.get());
}

std::filesystem::path make_numbered_directory(std::string_view what,
                                              const std::filesystem::path& parent,
                                              std::string_view name) {
  std::error_code error;
  std::filesystem::create_directories(parent, error);  // what is wrong with it is seen below
  for (std::int64_t number = 1;; ++number) {
    const std::filesystem::path path = parent / fmt::format("{}-{}", name, number);
    if (std::filesystem::create_directory(path, error)) return path;
    std::error_code ignored;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
      throw IoError(fmt::format("{} '{}': {}", what, path.string(), error.message()));
  }
}

void link_or_copy(const std::filesystem::path& existing, const std::filesystem::path& name) {
  if (names_directory(name)) fail("link", name, EISDIR);
  const std::filesystem::path temporary = temporary_of(name);
  if (unlink(temporary.c_str()) != 0 && errno != ENOENT) fail("link", temporary, errno);
  if (link(existing.c_str(), temporary.c_str()) != 0) {
    write_file_atomically(name, read_file(existing));
    return;
  }
  const int error = rename(temporary.c_str(), name.c_str()) == 0 ? 0 : errno;
  unlink(temporary.c_str());  // rename leaves it where both are names of one file already
  if (error != 0) fail("link", name, error);
  const std::filesystem::path parent = parent_of(name);
  sync_or_fail("link", parent, Descriptor("link", parent, O_RDONLY | O_DIRECTORY).get());
}

LineLog::LineLog(const std::filesystem::path& path)
    : path_(path), descriptor_(Descriptor("log", path, O_WRONLY | O_CREAT | O_APPEND).release()) {}

LineLog::~LineLog() { close(descriptor_); }

void LineLog::write(std::string_view line_without_newline) {
  std::string line;
  line.reserve(line_without_newline.size() + 1);
  line.append(line_without_newline).push_back('\n');
  write_bytes(line);
}

void LineLog::write_bytes(std::string_view bytes) { write_all("log", path_, descriptor_, bytes); }

void LineLog::sync() { sync_or_fail("log", path_, descriptor_); }

DirectoryLock::DirectoryLock(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / ".lock";
  Descriptor file("lock", path, O_RDWR | O_CREAT);
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      throw IoError(fmt::format(
          "lock: run directory '{}' is in use by another process, expected it to be free",
          directory.string()));
    }
    if (errno != EINTR) fail("lock", path, errno);
  }
  descriptor_ = file.release();
}

DirectoryLock::~DirectoryLock() { close(descriptor_); }

}  // namespace attune
