// Programs run by tests: to their end with both outputs, or in the background until told.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ebb::testing {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// `environment` replaces the environment but for PATH.
ProgramResult RunProgram(const std::string& program, std::vector<std::string> arguments,
                         std::vector<std::string> environment = {});

// Ends with SIGKILL when the test forgets it, and when the test itself ends.
class BackgroundProgram {
 public:
  // Both outputs are appended to `log_path`.
  BackgroundProgram(const std::string& program, std::vector<std::string> arguments,
                    std::string log_path);
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  void Signal(int signal);
  // Waits for its end; as ProgramResult::exit_code.
  int Wait();
  bool IsRunning();
  // What it has said so far.
  std::string Log() const;
  pid_t pid() const { return pid_; }

 private:
  const std::string log_path_;
  pid_t pid_ = 0;
  bool ended_ = false;
  int exit_code_ = -1;
};

// A folder of its own for a test, gone with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ebb::testing
