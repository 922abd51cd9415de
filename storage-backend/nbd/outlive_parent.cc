#include "storage-backend/nbd/outlive_parent.h"

#include <fstream>
#include <string>

#include <sys/prctl.h>

namespace ebb::storage {

void OutliveParent() {
  std::ifstream arguments("/proc/self/cmdline");
  for (std::string argument; std::getline(arguments, argument, '\0');) {
    if (argument == "--exit-with-parent") return;
  }
  prctl(PR_SET_PDEATHSIG, 0);
}

}  // namespace ebb::storage
