#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ebb {
namespace {

constexpr uint32_t kPolynomialReflected = 0x82f63b78;

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomialReflected : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t UpdatePortable(uint32_t crc, const std::byte* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(data[i])) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__)
// Multiplies a CRC register by x^(8 * bytes) mod P: what appending `bytes` zero bytes does to it.
constexpr uint32_t ShiftByBit(uint32_t crc) {
  return (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomialReflected : 0);
}

// One lane of a 4 KiB block: three interleaved lanes hide the 3-cycle latency of the instruction
// (a plain loop is limited to one third of its throughput).
constexpr size_t kLaneBytes =
    1360;  // 3 * 1360 = 4080, the remaining 16 bytes of a block are serial

struct ShiftTables {
  std::array<std::array<uint32_t, 256>, 4> by_byte{};
};

// Tables so that shifting a register over `bytes` zero bytes is four look-ups.
constexpr ShiftTables MakeShiftTables(size_t bytes) {
  std::array<uint32_t, 32> column{};  // image of each bit of the register
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < bytes * 8; ++i) crc = ShiftByBit(crc);
    column[bit] = crc;
  }
  ShiftTables tables;
  for (size_t byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      uint32_t sum = 0;
      for (size_t bit = 0; bit < 8; ++bit) {
        if ((value >> bit & 1) != 0) sum ^= column[byte * 8 + bit];
      }
      tables.by_byte[byte][value] = sum;
    }
  }
  return tables;
}

uint32_t ShiftLane(uint32_t crc) {
  static const ShiftTables kTables = MakeShiftTables(kLaneBytes);
  return kTables.by_byte[0][crc & 0xff] ^ kTables.by_byte[1][crc >> 8 & 0xff] ^
         kTables.by_byte[2][crc >> 16 & 0xff] ^ kTables.by_byte[3][crc >> 24];
}

uint64_t Load64(const std::byte* p) {
  uint64_t word = 0;
  std::memcpy(&word, p, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) uint32_t UpdateHardware(uint32_t crc, const std::byte* data,
                                                          size_t bytes) {
  while (bytes >= 3 * kLaneBytes) {
    uint64_t a = crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < kLaneBytes; i += 8) {
      a = _mm_crc32_u64(a, Load64(data + i));
      b = _mm_crc32_u64(b, Load64(data + kLaneBytes + i));
      c = _mm_crc32_u64(c, Load64(data + 2 * kLaneBytes + i));
    }
    crc = ShiftLane(ShiftLane(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^
          static_cast<uint32_t>(c);
    data += 3 * kLaneBytes;
    bytes -= 3 * kLaneBytes;
  }
  uint64_t wide = crc;
  for (; bytes >= 8; bytes -= 8, data += 8) wide = _mm_crc32_u64(wide, Load64(data));
  crc = static_cast<uint32_t>(wide);
  for (; bytes > 0; --bytes, ++data) crc = _mm_crc32_u8(crc, static_cast<uint8_t>(*data));
  return crc;
}

// Folding (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel,
// 2009) in 512-bit registers: each 128-bit lane is multiplied by x^distance mod P and added to the
// lane that lies so far behind it, until one lane is left that has the CRC of all. Reading is then
// the limit, so that a copy costs nothing beside it.
constexpr size_t kFoldBytes = 64;
constexpr size_t kFoldStepBytes = 4 * kFoldBytes;
#define EBB_TARGET_FOLD __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))

// x^exponent mod P, reflected, in the place where a carry-less product of reflected numbers needs
// it.
constexpr int64_t PowerOfX(size_t exponent) {
  uint32_t crc = uint32_t{1} << 31;
  for (size_t i = 0; i < exponent; ++i) crc = ShiftByBit(crc);
  return int64_t{crc} << 1;
}

// Multipliers of a lane that moves `kBits` ahead: its low half is the earlier one.
template <size_t kBits>
struct FoldPowers {
  static constexpr int64_t kLow = PowerOfX(kBits + 32);
  static constexpr int64_t kHigh = PowerOfX(kBits - 32);
};

template <size_t kBits>
EBB_TARGET_FOLD inline __m512i FoldPower() {
  using P = FoldPowers<kBits>;
  return _mm512_set_epi64(P::kHigh, P::kLow, P::kHigh, P::kLow, P::kHigh, P::kLow, P::kHigh,
                          P::kLow);
}

EBB_TARGET_FOLD inline __m512i Fold(__m512i sum, __m512i power, __m512i data) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, power, 0x00),
                                   _mm512_clmulepi64_epi128(sum, power, 0x11), data, 0x96);
}

// The CRC register after the 64 bytes of `sum`.
EBB_TARGET_FOLD inline uint32_t ReduceFolded(__m512i sum) {
  const __m512i power =
      _mm512_set_epi64(0, 0, FoldPowers<128>::kHigh, FoldPowers<128>::kLow, FoldPowers<256>::kHigh,
                       FoldPowers<256>::kLow, FoldPowers<384>::kHigh, FoldPowers<384>::kLow);
  const __m512i last = _mm512_maskz_mov_epi64(0xc0, sum);
  const __m512i moved = Fold(sum, power, last);
  const __m256i half =
      _mm256_xor_si256(_mm512_castsi512_si256(moved), _mm512_extracti64x4_epi64(moved, 1));
  const __m128i lane =
      _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const uint64_t crc = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(lane)));
  return static_cast<uint32_t>(
      _mm_crc32_u64(crc, static_cast<uint64_t>(_mm_extract_epi64(lane, 1))));
}

template <bool kCopy>
EBB_TARGET_FOLD inline __m512i Take(const std::byte* data, std::byte* copy) {
  const __m512i taken = _mm512_loadu_si512(data);
  if constexpr (kCopy) _mm512_storeu_si512(copy, taken);
  return taken;
}

// Copies to `copy` on the way when kCopy.
template <bool kCopy>
EBB_TARGET_FOLD uint32_t UpdateFolding(uint32_t crc, const std::byte* data, size_t bytes,
                                       std::byte* copy) {
  if (bytes >= kFoldStepBytes) {
    const __m512i far = FoldPower<kFoldStepBytes * 8>();
    const __m512i near = FoldPower<kFoldBytes * 8>();
    const __m512i begin = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc)));
    __m512i a = _mm512_xor_si512(Take<kCopy>(data, copy), begin);
    __m512i b = Take<kCopy>(data + kFoldBytes, copy + kFoldBytes);
    __m512i c = Take<kCopy>(data + 2 * kFoldBytes, copy + 2 * kFoldBytes);
    __m512i d = Take<kCopy>(data + 3 * kFoldBytes, copy + 3 * kFoldBytes);
    size_t at = kFoldStepBytes;
    for (; bytes - at >= kFoldStepBytes; at += kFoldStepBytes) {
      a = Fold(a, far, Take<kCopy>(data + at, copy + at));
      b = Fold(b, far, Take<kCopy>(data + at + kFoldBytes, copy + at + kFoldBytes));
      c = Fold(c, far, Take<kCopy>(data + at + 2 * kFoldBytes, copy + at + 2 * kFoldBytes));
      d = Fold(d, far, Take<kCopy>(data + at + 3 * kFoldBytes, copy + at + 3 * kFoldBytes));
    }
    d = Fold(Fold(Fold(a, near, b), near, c), near, d);
    for (; bytes - at >= kFoldBytes; at += kFoldBytes) {
      d = Fold(d, near, Take<kCopy>(data + at, copy + at));
    }
    crc = ReduceFolded(d);
    data += at;
    copy += at;
    bytes -= at;
  }
  if constexpr (kCopy) std::memcpy(copy, data, bytes);
  return UpdateHardware(crc, data, bytes);
}

enum class Method : uint8_t { kPortable, kInstruction, kFolding };

Method BestMethod() {
  if (__builtin_cpu_supports("sse4.2") == 0) return Method::kPortable;
  const bool folds = __builtin_cpu_supports("avx512f") != 0 &&
                     __builtin_cpu_supports("avx512vl") != 0 &&
                     __builtin_cpu_supports("vpclmulqdq") != 0;
  return folds ? Method::kFolding : Method::kInstruction;
}

const Method kMethod = BestMethod();
#endif

}  // namespace

uint32_t Crc32c(std::span<const std::byte> data, uint32_t crc) {
  crc = ~crc;
#if defined(__x86_64__)
  if (kMethod == Method::kFolding) {
    return ~UpdateFolding<false>(crc, data.data(), data.size(), nullptr);
  }
  if (kMethod == Method::kInstruction) return ~UpdateHardware(crc, data.data(), data.size());
#endif
  return ~UpdatePortable(crc, data.data(), data.size());
}

uint32_t Crc32cCopy(std::byte* to, std::span<const std::byte> from, uint32_t crc) {
#if defined(__x86_64__)
  if (kMethod == Method::kFolding) {
    return ~UpdateFolding<true>(~crc, from.data(), from.size(), to);
  }
#endif
  // The copy fetches in order what the interleaved lanes would fetch out of order.
  std::memcpy(to, from.data(), from.size());
  return Crc32c({to, from.size()}, crc);
}

}  // namespace ebb
