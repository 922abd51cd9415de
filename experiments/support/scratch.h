// Where an experiment keeps its device files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebb::experiments {

// A folder in memory (/dev/shm) when it takes direct I/O and the machine has `bytes` to spare: then
// the models alone give the devices' service times. Otherwise /tmp, whose disk can be slower than a
// model, which shaping cannot make up for.
std::string ChooseScratchParent(uint64_t bytes);

// Whether files in `folder` can be written with O_DIRECT.
bool TakesDirectIo(const std::string& folder);

// A new folder, private to this user, below `parent`.
absl::StatusOr<std::string> MakeScratchFolder(const std::string& parent);

// One that goes with the object.
class ScratchFolder {
 public:
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> Make(const std::string& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace ebb::experiments
