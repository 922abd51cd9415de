#include "env/node/stream_reader.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "storage-backend/control/json_rpc_client.h"
#include "storage-backend/control/json_rpc_server.h"

namespace ebb::env {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

// A node whose requests come while its stream is being read: `per_call` after every answer. Request
// number s (from 1) is at offset 4096 s.
class StreamReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = storage::JsonRpcServer::Start(
        {.socket_path = socket_path_},
        {{"stream.get", [this](const std::string& params) { return Get(params); }}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  storage::RpcReply Get(const std::string& params) {
    const auto after = Json::parse(params).at("after").get<uint64_t>();
    const auto max = Json::parse(params).at("max").get<uint64_t>();
    const uint64_t end = requests_ + 1;
    Json records = Json::array();
    uint64_t next = std::max<uint64_t>(1, std::min(after, end));
    for (; next < end && records.size() < max; ++next) {
      records.push_back({next * 1000, "W", next * 4096, 4096, 10});
    }
    requests_ += per_call_;
    return storage::RpcReply::Result(
        Json{{"records", records}, {"next", next}, {"dropped", 0}, {"sample_rate", 1.0}}.dump());
  }

  std::vector<uint64_t> Read(StreamReader& reader) {
    std::vector<uint64_t> numbers;
    const absl::Status status = reader.ReadToEnd([&](const StreamSlice& slice) {
      for (const StreamEntry& entry : slice.entries) numbers.push_back(entry.offset / 4096);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return numbers;
  }

  const std::string socket_path_ = testing::TempDir() + "/stream_reader.sock";
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<uint64_t> per_call_ = 0;
  std::unique_ptr<storage::JsonRpcServer> server_;
};

// Goal: what came between the question for the end and the answer is read once.
TEST_F(StreamReaderTest, RequestsThatComeMeanwhileAreReadOnce) {
  storage::JsonRpcClient client(socket_path_);
  StreamReader reader(client);
  requests_ = 2;
  per_call_ = 1;
  EXPECT_THAT(Read(reader), ElementsAre(1, 2, 3));
  EXPECT_THAT(Read(reader), ElementsAre(4, 5));
  per_call_ = 0;
  EXPECT_THAT(Read(reader), ElementsAre(6));
  EXPECT_THAT(Read(reader), IsEmpty());
}

TEST_F(StreamReaderTest, ANodeThatStartedAnewIsReadFromItsBeginning) {
  storage::JsonRpcClient client(socket_path_);
  StreamReader reader(client);
  requests_ = 3;
  EXPECT_THAT(Read(reader), ElementsAre(1, 2, 3));
  requests_ = 1;
  EXPECT_THAT(Read(reader), ElementsAre(1));
}

TEST_F(StreamReaderTest, WhatWasBeforeCanBeLeftOut) {
  storage::JsonRpcClient client(socket_path_);
  StreamReader reader(client);
  requests_ = 3;
  ASSERT_TRUE(reader.SkipToEnd().ok());
  requests_ = 4;
  EXPECT_THAT(Read(reader), ElementsAre(4));
}

}  // namespace
}  // namespace ebb::env
