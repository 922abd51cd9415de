#include "storage-backend/reduce/fingerprint.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace ebb::storage {

struct Fingerprinter::State {
  // Fetched once: the look-up of the algorithm would cost 300 ns for each block.
  EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_MD_CTX* const context = EVP_MD_CTX_new();

  ~State() {
    EVP_MD_CTX_free(context);
    EVP_MD_free(algorithm);
  }
};

Fingerprinter::Fingerprinter() : state_(std::make_unique<State>()) {
  EBB_CHECK(state_->algorithm != nullptr && state_->context != nullptr);
}

Fingerprinter::~Fingerprinter() = default;

Fingerprint Fingerprinter::Of(std::span<const std::byte> data) {
  Fingerprint fingerprint;
  unsigned int bytes = 0;
  const bool done =
      EVP_DigestInit_ex(state_->context, state_->algorithm, nullptr) == 1 &&
      EVP_DigestUpdate(state_->context, data.data(), data.size()) == 1 &&
      EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(fingerprint.data()),
                         &bytes) == 1;
  EBB_CHECK(done && bytes == fingerprint.size());
  return fingerprint;
}

}  // namespace ebb::storage
