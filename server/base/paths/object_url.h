#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The URL of an object in an object store, or of several if its key has wildcards:
//
//   s3://bucket/key   gs://bucket/key   http://host/path?query   https://host/path?query
struct ObjectUrl {
  enum class Scheme { kS3, kGs, kHttp, kHttps };
  Scheme scheme = Scheme::kS3;
  // s3, gs: the bucket. http, https: the host, with a port if the URL has one: "data.example:8080".
  std::string host;
  // s3, gs: the key as the store has it, not percent-encoded; never empty. http, https: the path
  // without its first "/", percent-encoded as in the URL; may be empty.
  std::string key;
  // http, https: what follows "?", such as a presigned signature. A secret.
  std::string query;

  bool is_bucket() const { return scheme == Scheme::kS3 || scheme == Scheme::kGs; }
};

// Whether `text` begins as such a URL does, in letters of either case. It may still be invalid.
bool IsObjectUrl(absl::string_view text);

// Whether `text`, which is no such URL, seems to be meant as one: "az://…", "s3:/…".
bool LooksLikeUrl(absl::string_view text);

// The parts of `url`. Keys of s3 and gs may contain "?" and "#". INVALID_ARGUMENT, SPEC_INVALID: an
// unknown scheme, S3:// or GS:// in capital letters, an empty or impossible bucket or host, an
// empty key of s3 or gs, a component
// "..", a fragment or a wildcard of http or https, a control character, or a user name or password,
// which the message does not repeat.
absl::StatusOr<ObjectUrl> ParseObjectUrl(absl::string_view url);

// The same for a folder: "s3://bucket", "s3://bucket/photos/". The key is empty or ends with "/".
absl::StatusOr<ObjectUrl> ParseFolderUrl(absl::string_view url);

// Whether `url` is `root` or lies below it, as paths do: "s3://b/train" has s3://b/train/x, and not
// s3://b/training. A `root` that is no URL has none.
bool IsBelowUrl(absl::string_view url, absl::string_view root);
// PERMISSION_DENIED, PATH_NOT_ALLOWED: `url` lies below no root of the service.
absl::Status UrlNotAllowed(absl::string_view url);

// The folder of the object `url`, without "/" at its end and without a query.
std::string FolderOfUrl(absl::string_view url);
// Whether `path`, as a list writes it, names an object: it is a URL, or relative to `folder` that
// is one. An absolute path is a file.
bool NamesObject(absl::string_view folder, absl::string_view path);
// The URL of that object, valid or not. "." and ".." are those of paths; for a web server the path
// is percent-encoded.
std::string JoinUrl(absl::string_view folder, absl::string_view path);
// `url`, of s3 or gs, in patterns: every character that has a meaning there stands for itself.
std::string EscapedUrl(absl::string_view url);
// The URL without a query of http and https, which may be a signature that changes.
absl::string_view WithoutQuery(absl::string_view url);
// A number that stands for that query without the parameters of a signature (of Amazon, Google,
// CloudFront and Azure), which tells apart what a server has at one path, and shows no secret.
// 0: there are no other parameters.
uint64_t QueryNumber(absl::string_view url);
// The same for names: "" or "?0123456789abcdef".
std::string QueryMark(absl::string_view url);

// `url`, valid or not, as messages and logs show it: without what could be a user's name or
// password, without the query of http and https, and printable.
std::string ShownUrl(absl::string_view url);

}  // namespace bulkhead
