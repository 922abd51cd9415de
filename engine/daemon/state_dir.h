// StateDir: the folder with everything the daemon must not lose, owned by one daemon at a time.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace ebb::engine {

class StateDir {
 public:
  // Makes the folder (0700) when it is missing and locks it. FailedPrecondition, with the owner's
  // process id, when another daemon has it. The lock goes with this object or the process.
  static absl::StatusOr<std::unique_ptr<StateDir>> Open(const std::string& path);
  ~StateDir();
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  StateDir(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  const std::string path_;
  const int lock_;
};

}  // namespace ebb::engine
