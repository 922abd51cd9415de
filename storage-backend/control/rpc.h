// What both ends of the control protocol (PROTOCOL.md) share: error codes and limits.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace ebb::storage {

inline constexpr int kRpcParseError = -32700;
inline constexpr int kRpcInvalidRequest = -32600;
inline constexpr int kRpcUnknownMethod = -32601;
inline constexpr int kRpcBadParameters = -32602;
inline constexpr int kRpcInternal = -32603;
inline constexpr int kRpcRefused = -32000;
inline constexpr int kRpcStaleVersion = -32001;
inline constexpr int kRpcNoSuchLease = -32002;
inline constexpr int kRpcForeignUser = -32003;

inline constexpr size_t kRpcRequestBytesMax = size_t{1} << 20;
inline constexpr size_t kRpcReplyBytesMax = size_t{16} << 20;
inline constexpr int kRpcNestingMax = 32;

// What a method answers: a result, or an error when code is not 0.
struct RpcReply {
  std::string result_json;
  int code = 0;
  std::string message;
  std::string data_json;  // empty when the error carries none

  static RpcReply Result(std::string json) { return RpcReply{std::move(json), 0, "", ""}; }
  static RpcReply Error(int error_code, std::string text, std::string json = "") {
    return RpcReply{"", error_code, std::move(text), std::move(json)};
  }
};

}  // namespace ebb::storage
