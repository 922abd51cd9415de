#include "storage-backend/policy/read_admission.h"

namespace ebb::storage {

void ReadAdmissionPolicy::Forget() {
  seen_.Reset(slot_count_);
  counts_.Reset(kind_ == ReadAdmission::kFrequency ? slot_count_ : 0);
}

void ReadAdmissionPolicy::Resize(uint32_t slot_count) {
  if (slot_count == slot_count_) return;
  slot_count_ = slot_count;
  Forget();
}

void ReadAdmissionPolicy::SetKind(ReadAdmission kind) {
  if (kind == kind_) return;
  kind_ = kind;
  Forget();
}

bool ReadAdmissionPolicy::SeenBefore(uint64_t key) {
  if (seen_.Take(key)) return true;
  seen_.Add(key);
  return false;
}

bool ReadAdmissionPolicy::Admit(uint64_t key, ReadFrom from, std::optional<uint64_t> victim) {
  switch (kind_) {
    case ReadAdmission::kAlways:
      return from == ReadFrom::kCapacity || SeenBefore(key);
    case ReadAdmission::kSecondHit:
      return SeenBefore(key);
    case ReadAdmission::kFrequency:
      // What is read once is not counted at all: a scan would fill the counters of everybody.
      if (!seen_.Contains(key)) {
        seen_.Add(key);
        return from == ReadFrom::kCapacity && !victim.has_value();
      }
      counts_.Add(key);
      return !victim.has_value() || counts_.Count(key) > counts_.Count(*victim);
  }
  return true;
}

}  // namespace ebb::storage
