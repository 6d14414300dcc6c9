#include "client/cpp/internal/batch/assembler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "bulkhead/error.h"
#include "client/cpp/internal/batch/layout.h"
#include "client/cpp/internal/batch/quarantine.h"
#include "tests/client/fake_service.h"

namespace bulkhead::client_internal {
namespace {

std::shared_ptr<BatchContext> FakeContext() {
  v1::Cursor cursor;
  cursor.set_version(2);
  cursor.set_samples_per_epoch(20);
  return std::make_shared<BatchContext>(*MakeLayout(FakeSchema()), cursor, 4);
}

// Of a quarantine of a@1 and b@2, as in tests/base/quarantine_set_test.cc.
constexpr const char* kDigest = "6c6aa3c66365a5218535b36d34d6be97a699bd142832e05d423d53923e17f5cf";

// One part as it comes from the wire.
struct Piece {
  uint64_t offset = 0;
  std::string data;
  std::optional<v1::BatchHeader> header;
};

absl::StatusOr<std::unique_ptr<BatchData>> Feed(Assembler& assembler, const Piece& piece) {
  v1::StreamResponse response;
  auto* part = response.mutable_part();
  part->set_offset(piece.offset);
  part->set_data(piece.data);
  if (piece.header.has_value()) *part->mutable_header() = *piece.header;
  const std::vector<grpc::Slice> slices = {grpc::Slice(response.SerializeAsString())};
  auto view = ParseStreamResponse(slices);
  if (!view.ok()) return view.status();
  return assembler.Add(view->part);
}

// A whole batch of `count` samples: index bytes 'i', pix bytes 'p'.
std::vector<Piece> Pieces(uint64_t sequence, uint64_t count) {
  v1::BatchHeader header;
  header.set_sequence(sequence);
  header.set_sample_count(count);
  header.set_valid_count(count);
  header.set_payload_bytes(11 * count);
  return {{0, std::string(8 * count, 'i'), header}, {64, std::string(3 * count, 'p'), {}}};
}

TEST(AssemblerTest, CompletesABatchWithItsLastByte) {
  Assembler assembler(FakeContext(), false, 1);
  const auto pieces = Pieces(0, 5);
  auto nothing = Feed(assembler, pieces[0]);
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(*nothing, nullptr);
  EXPECT_TRUE(assembler.in_batch());
  auto batch = Feed(assembler, pieces[1]);
  ASSERT_TRUE(batch.ok());
  ASSERT_NE(*batch, nullptr);
  EXPECT_FALSE(assembler.in_batch());
  const Tensor& pix = (*batch)->tensors[1];
  EXPECT_EQ(pix.shape, (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(pix.bytes, 15u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pix.data) % 64, 0u);
  EXPECT_EQ(std::string(static_cast<const char*>(pix.data), 15), std::string(15, 'p'));
}

TEST(AssemblerTest, TakesPartsThatSpanTensorsAndTheirGaps) {
  Assembler assembler(FakeContext(), false, 1);
  auto whole = Pieces(0, 8);
  whole[0].data = std::string(128, 'w');
  whole[0].header->set_payload_bytes(128);
  auto batch = Feed(assembler, whole[0]);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_NE(*batch, nullptr);
}

TEST(AssemblerTest, RecyclesMemory) {
  Assembler assembler(FakeContext(), false, 1);
  const void* first = nullptr;
  for (uint64_t sequence = 0; sequence < 3; ++sequence) {
    const auto pieces = Pieces(sequence, 8);
    ASSERT_TRUE(Feed(assembler, pieces[0]).ok());
    auto batch = Feed(assembler, pieces[1]);
    ASSERT_TRUE(batch.ok());
    if (first == nullptr) first = (*batch)->memory.get();
    EXPECT_EQ((*batch)->memory.get(), first);
  }
}

TEST(AssemblerTest, RefusesWhatTheProtocolForbids) {
  using Spoil = std::function<void(std::vector<Piece>&)>;
  const std::vector<std::pair<const char*, Spoil>> cases = {
      {"no header", [](auto& p) { p[0].header.reset(); }},
      {"header again", [](auto& p) { p[1].header = p[0].header; }},
      {"sequence", [](auto& p) { p[0].header->set_sequence(1); }},
      {"no samples", [](auto& p) { p[0].header->set_sample_count(0); }},
      {"too many samples", [](auto& p) { p[0].header->set_sample_count(9); }},
      {"absurd samples", [](auto& p) { p[0].header->set_sample_count(uint64_t{1} << 60); }},
      {"too many valid", [](auto& p) { p[0].header->set_valid_count(9); }},
      {"absurd payload", [](auto& p) { p[0].header->set_payload_bytes(uint64_t{1} << 62); }},
      {"outside", [](auto& p) { p[1].offset = 120; }},
      {"overflowing offset", [](auto& p) { p[1].offset = UINT64_MAX - 3; }},
      {"overlap", [](auto& p) { p[1].offset = 50; }},
      {"gap", [](auto& p) { p[1].offset = 65; }},
      {"excess", [](auto& p) { p[1].data += "x"; }},
      {"missing tensor",
       [](auto& p) {
         p[0].header->set_payload_bytes(64);
         p.pop_back();
       }},
      {"twice the same",
       [](auto& p) {
         p[0].data.resize(24);
         p[1] = Piece{0, std::string(24, 'i'), {}};
       }},
  };
  for (const auto& [name, spoil] : cases) {
    Assembler assembler(FakeContext(), false, 1);
    auto pieces = Pieces(0, 8);
    spoil(pieces);
    absl::Status status;
    for (const Piece& piece : pieces) {
      auto batch = Feed(assembler, piece);
      status = batch.status();
      if (!status.ok()) break;
    }
    EXPECT_EQ(ErrorReason(status), "PROTOCOL_VIOLATION") << name;
  }
}

TEST(AssemblerTest, RefusesABatchMadeWithAnotherQuarantineThanItsCursorSays) {
  using Records = std::vector<const char*>;
  for (const auto& [known, digest, fits] :
       {std::tuple(Records{}, "", true), std::tuple(Records{"a@1", "b@2"}, "", false),
        std::tuple(Records{}, kDigest, false), std::tuple(Records{"a@1"}, kDigest, false),
        std::tuple(Records{"b@2", "a@1"}, kDigest, true)}) {
    v1::Cursor cursor;
    for (const char* record : known) cursor.add_quarantined(record);
    Assembler assembler(std::make_shared<BatchContext>(*MakeLayout(FakeSchema()), cursor, 4), false,
                        1);
    auto pieces = Pieces(0, 8);
    pieces[0].header->set_quarantine_digest(digest);
    EXPECT_EQ(Feed(assembler, pieces[0]).ok(), fits) << known.size() << " " << digest;
  }
}

TEST(LayoutTest, TellsTheNamesOfALabelsClasses) {
  v1::BatchSchema schema = FakeSchema();
  for (const char* name : {"cat", "dog"}) schema.mutable_tensors(0)->add_class_names(name);
  const auto layout = MakeLayout(schema);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->tensors[0].class_names, (std::vector<std::string>{"cat", "dog"}));
}

TEST(LayoutTest, RefusesSchemasThatDoNotFit) {
  using Spoil = std::function<void(v1::BatchSchema&)>;
  const std::vector<std::pair<const char*, Spoil>> cases = {
      {"no samples", [](auto& s) { s.set_batch_size(0); }},
      {"outside", [](auto& s) { s.set_batch_bytes(64); }},
      {"overflow", [](auto& s) { s.set_batch_size(uint64_t{1} << 61); }},
      {"unaligned", [](auto& s) { s.mutable_tensors(1)->set_batch_offset(65); }},
      {"offset overflow", [](auto& s) { s.mutable_tensors(1)->set_batch_offset(~uint64_t{63}); }},
      {"type", [](auto& s) { s.mutable_tensors(0)->set_dtype(v1::DTYPE_UNSPECIFIED); }},
      {"width", [](auto& s) { s.mutable_tensors(0)->set_element_bytes(4); }},
      {"no width", [](auto& s) { s.mutable_tensors(0)->set_element_bytes(0); }},
      {"shape", [](auto& s) { s.mutable_tensors(1)->set_shape(0, -1); }},
      {"size", [](auto& s) { s.mutable_tensors(1)->set_sample_bytes(4); }},
      {"one name twice", [](auto& s) { s.mutable_tensors(1)->set_name("index"); }},
      {"no name", [](auto& s) { s.mutable_tensors(1)->set_name(""); }},
      {"shape overflow",
       [](auto& s) {
         s.mutable_tensors(1)->add_shape(int64_t{1} << 62);
         s.mutable_tensors(1)->add_shape(int64_t{1} << 62);
       }},
  };
  EXPECT_TRUE(MakeLayout(FakeSchema()).ok());
  for (const auto& [name, spoil] : cases) {
    v1::BatchSchema schema = FakeSchema();
    spoil(schema);
    EXPECT_EQ(ErrorReason(MakeLayout(schema).status()), "PROTOCOL_VIOLATION") << name;
  }
}

TEST(CursorTest, JsonSurvivesARoundTrip) {
  v1::Cursor cursor;
  cursor.set_version(2);
  cursor.set_order_fingerprint("ab");
  cursor.set_consumed(uint64_t{1} << 60);
  cursor.add_quarantined("quote\" back\\ line\n ü");
  for (const char* name : {"augment.py", "a \"b\"/c.so"}) {
    v1::CodeFile& file = *cursor.add_code();
    file.set_name(name);
    file.set_digest("0123456789abcdef");
    file.set_later(file.name() == "augment.py");
  }
  const std::string json = CursorToJson(cursor);
  EXPECT_NE(json.find("\"consumed\":1152921504606846976"), std::string::npos) << json;
  auto again = CursorFromJson(json);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), cursor.SerializeAsString());
  EXPECT_EQ(ErrorReason(CursorFromJson("{\"epoch\": \"x\"}").status()), "INVALID_ARGUMENT");
}

TEST(CursorTest, CodeIsSortedAndEachFileThereOnce) {
  v1::Cursor cursor;
  v1::CodeFile& file = *cursor.add_code();
  file.set_name("b.py");
  file.set_digest("01");
  google::protobuf::RepeatedPtrField<v1::CodeFile> loaded;
  *loaded.Add() = file;
  loaded[0].set_digest("02");
  *loaded.Add() = file;
  loaded[1].set_name("a.py");
  loaded[1].set_later(true);
  AddCode({}, &cursor);
  EXPECT_EQ(cursor.code_size(), 1);
  AddCode(loaded, &cursor);
  AddCode(loaded, &cursor);
  const std::string json = CursorToJson(cursor);
  EXPECT_NE(json.find(R"("code":[{"name":"a.py","digest":"01","later":true},)"
                      R"({"name":"b.py","digest":"02"}])"),
            std::string::npos)
      << json;
}

TEST(CursorTest, QuarantinedRecordsAreSortedDistinctAndFew) {
  v1::Cursor cursor;
  cursor.add_quarantined("b");
  EXPECT_TRUE(AddQuarantined("c", &cursor).ok());
  EXPECT_TRUE(AddQuarantined("a", &cursor).ok());
  EXPECT_TRUE(AddQuarantined("b", &cursor).ok());
  EXPECT_NE(CursorToJson(cursor).find(R"("quarantined":["a","b","c"])"), std::string::npos);
  for (int i = 0; i < 253; ++i) EXPECT_TRUE(AddQuarantined("x" + std::to_string(i), &cursor).ok());
  EXPECT_EQ(cursor.quarantined_size(), 256);
  EXPECT_FALSE(AddQuarantined("y", &cursor).ok());
  EXPECT_TRUE(AddQuarantined("a", &cursor).ok());
  EXPECT_FALSE(AddQuarantined("", &cursor).ok());
}

}  // namespace
}  // namespace bulkhead::client_internal
