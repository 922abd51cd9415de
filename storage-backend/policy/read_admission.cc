#include "storage-backend/policy/read_admission.h"

namespace ebb::storage {

bool ReadAdmissionPolicy::Admit(uint64_t key, bool second_hit_only) {
  if (!second_hit_only) return true;
  if (seen_.Take(key)) return true;
  seen_.Add(key);
  return false;
}

}  // namespace ebb::storage
