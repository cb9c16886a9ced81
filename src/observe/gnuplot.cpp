#include "observe/gnuplot.h"

#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/text.h"

namespace attune::gnuplot {
namespace {

constexpr int kNotFound = 127;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File temporary() {
  File file(std::tmpfile(), std::fclose);
  if (!file) throw IoError(fmt::format("a temporary file for gnuplot: {}", std::strerror(errno)));
  return file;
}

std::string contents(std::FILE* file) {
  std::string bytes;
  std::rewind(file);
  char buffer[65536];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, file)) bytes.append(buffer, n);
  return bytes;
}

struct Outcome {
  int code;
  std::string output;
  std::string errors;
};

// gnuplot with a script as its standard input. Files stand at its three streams, not pipes: it
// never waits for us, nor we for it.
Outcome execute(const std::string& script) {
  const File input = temporary(), output = temporary(), errors = temporary();
  std::fwrite(script.data(), 1, script.size(), input.get());
  std::rewind(input.get());  // writes what was buffered and leaves the place at the beginning
  const int streams[] = {fileno(input.get()), fileno(output.get()), fileno(errors.get())};
  const pid_t child = fork();
  if (child < 0) throw IoError(fmt::format("gnuplot: {}", std::strerror(errno)));
  if (child == 0) {
    for (int i = 0; i < 3; ++i) dup2(streams[i], i);
    execlp("gnuplot", "gnuplot", static_cast<char*>(nullptr));
    _exit(kNotFound);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(output.get()),
          contents(errors.get())};
}

// The first line that says something: gnuplot quotes the script, an arrow, then the message.
std::string message_of(const std::string& errors) {
  std::size_t begin = errors.find("line ");
  if (begin == std::string::npos) begin = 0;
  const std::string line = errors.substr(begin, errors.find('\n', begin) - begin);
  return line.empty() ? "it drew nothing" : printable(line);
}

}  // namespace

std::string literal(std::string_view text) {
  std::string result = "'";
  for (const char c : printable(text)) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + "'";
}

std::string begin(const std::filesystem::path& file, int rows, int columns, int width, int height) {
  const std::string extension = file.extension().string();
  if (extension != ".svg" && extension != ".png") {
    throw ValueError(fmt::format("picture '{}': the name must end in .svg or .png", file.string()));
  }
  return fmt::format(
      "set terminal {} size {},{} noenhanced font 'DejaVu Sans,11' background '#ffffff'\n"
      "set encoding utf8\nset multiplot layout {},{}\n",
      extension == ".svg" ? "svg" : "pngcairo", columns * width, rows * height, rows, columns);
}

void run(const std::string& script, const std::filesystem::path& file) {
  const Outcome outcome = execute(script + "unset multiplot\n");
  if (outcome.code == kNotFound) {
    throw IoError(fmt::format(
        "'{}' is not drawn: there is no gnuplot (apt-get install gnuplot-nox)", file.string()));
  }
  if (outcome.code != 0 || outcome.output.empty()) {
    throw IoError(
        fmt::format("'{}' is not drawn: gnuplot: {}", file.string(), message_of(outcome.errors)));
  }
  write_file_atomically(file, outcome.output);
}

}  // namespace attune::gnuplot
