#include "base/text_file.h"

#include <fstream>

namespace ebb {

absl::Status WriteTextFile(const std::string& path, std::string_view text) {
  std::ofstream file(path);
  file << text;
  file.close();  // what is still buffered may fail to be written
  return file.good() ? absl::OkStatus() : absl::UnavailableError("cannot write " + path);
}

}  // namespace ebb
