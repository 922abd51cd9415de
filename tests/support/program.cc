#include "tests/support/program.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

namespace ebb::testing {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = read(fd, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  close(fd);
  return text;
}

int ExitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ProgramResult RunProgram(const std::string& program, std::vector<std::string> arguments,
                         std::vector<std::string> environment) {
  arguments.insert(arguments.begin(), program);
  environment.push_back("PATH=/usr/sbin:/usr/bin:/sbin:/bin");
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  int out[2];
  int err[2];
  EBB_CHECK(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  pid_t pid = 0;
  const int failed =
      posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  ProgramResult result;
  if (failed != 0) {
    close(out[0]);
    close(err[0]);
    result.err = "cannot start " + program;
    return result;
  }
  std::thread reader([&] { result.err = ReadAll(err[0]); });
  result.out = ReadAll(out[0]);
  reader.join();
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_code = ExitCode(status);
  return result;
}

BackgroundProgram::BackgroundProgram(const std::string& program, std::vector<std::string> arguments,
                                     std::string log_path)
    : log_path_(std::move(log_path)) {
  arguments.insert(arguments.begin(), program);
  const std::vector<char*> argv = Pointers(arguments);
  const int log = open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  EBB_CHECK(log >= 0);
  pid_ = fork();
  EBB_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  close(log);
}

BackgroundProgram::~BackgroundProgram() {
  if (!IsRunning()) return;
  Signal(SIGKILL);
  Wait();
}

void BackgroundProgram::Signal(int signal) {
  if (IsRunning()) kill(pid_, signal);
}

int BackgroundProgram::Wait() {
  if (!ended_) {
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    exit_code_ = ExitCode(status);
  }
  return exit_code_;
}

bool BackgroundProgram::IsRunning() {
  if (ended_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_ = true;
    exit_code_ = ExitCode(status);
  }
  return !ended_;
}

std::string BackgroundProgram::Log() const {
  std::ifstream file(log_path_);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

ScratchFolder::ScratchFolder()
    : path_((std::filesystem::temp_directory_path() / "ebb_test_XXXXXX").string()) {
  EBB_CHECK(mkdtemp(path_.data()) != nullptr);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ebb::testing
