#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace attune {

// The whole file as bytes. Throws IoError: missing, a directory, unreadable, a pipe or a device of
// 2^28 bytes or more.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

// Replaces a file atomically: temporary `<path>.tmp` beside it, write, fsync, rename, fsync of the
// directory. A temporary that a killed process left behind is replaced. On any failure (disk full,
// size limit, directory gone) throws IoError, leaves the old file as it was and removes the
// temporary; only where the last fsync fails is the new file in place already. A process that may
// meet a size limit must ignore SIGXFSZ to get the error.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

// Makes `<parent>/<name>-1`, or with the first number that is free: the system makes a directory
// once, so of two processes that start together each gets its own. Throws IoError, which calls it
// `what`, as in "run directory".
[[nodiscard]] std::filesystem::path make_numbered_directory(std::string_view what,
                                                            const std::filesystem::path& parent,
                                                            std::string_view name);

// Gives a file a second name in the same directory, atomically in place of what stood under it: a
// hard link, or a copy where there can be none. Throws IoError.
void link_or_copy(const std::filesystem::path& existing, const std::filesystem::path& name);

// Appends whole lines to a log; every line is handed to the system at once, sync() reaches the
// disk.
class LineLog final {
 public:
  // Opens for appending, creates the file. Throws IoError.
  explicit LineLog(const std::filesystem::path& path);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  // Throws IoError naming the file and the reason (a full disk); a part of the line may then be in
  // the file.
  void write(std::string_view line_without_newline);
  // Bytes as they are: several whole lines, or a log that is not made of lines.
  void write_bytes(std::string_view bytes);
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_;
};

// Holds a run directory for one process (flock on `<directory>/.lock`). Throws IoError where
// another one holds it.
class DirectoryLock final {
 public:
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace attune
