#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/record_name.h"
#include "server/objects/credentials/credential_providers.h"
#include "server/objects/credentials/found_credentials.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

// Whether a file is another one than when it was read.
class FileWatch {
 public:
  explicit FileWatch(std::string path) : path_(std::move(path)) { Note(); }

  void Note() { seen_ = Look(); }
  bool HasChanged() const { return seen_ != Look(); }

 private:
  std::pair<int64_t, uint64_t> Look() const {
    if (path_.empty()) return {};
    const absl::StatusOr<FileInfo> info = StatFile(path_);
    return info.ok() ? std::make_pair(info->mtime_ns, info->inode)
                     : std::make_pair(int64_t{0}, uint64_t{0});
  }

  const std::string path_;
  std::pair<int64_t, uint64_t> seen_;
};

}  // namespace

CredentialProvider VariableCredentials(const Environment& environment, const std::string& prefix) {
  return {[=](const CredentialProvider::Done& done) {
    const std::string id = absl::StrCat(prefix, "ACCESS_KEY_ID");
    const std::string secret = absl::StrCat(prefix, "SECRET_ACCESS_KEY");
    const std::string token = absl::StrCat(prefix, "SESSION_TOKEN");
    StoreCredentials credentials;
    credentials.key = {Variable(environment, id.c_str()), Variable(environment, secret.c_str()),
                       Variable(environment, token.c_str())};
    credentials.from = id;
    const bool has_id = !credentials.key.access_key_id.empty();
    const bool has_secret = !credentials.key.secret_access_key.empty();
    if (has_id && has_secret) return done(credentials);
    if (!has_id && !has_secret) return done(std::nullopt);
    done(NoCredentials(absl::StatusCode::kPermissionDenied, has_id ? id : secret,
                       absl::StrCat("is set without ", has_id ? secret : id, "; set both")));
  }};
}

CredentialProvider ProfileCredentials(const AwsFiles& files) {
  const auto credentials_file = std::make_shared<FileWatch>(files.credentials);
  const auto config_file = std::make_shared<FileWatch>(files.config);
  const auto find = [=](const CredentialProvider::Done& done) {
    credentials_file->Note();
    config_file->Note();
    AwsProfile profile = ReadAwsProfile(files.credentials, files.profile);
    const std::string from = absl::StrCat("the profile '", Printable(files.profile), "'");
    if (profile.count("aws_access_key_id") == 0) {
      profile.merge(ReadAwsProfile(files.config, files.profile));
    }
    if (files.is_chosen && profile.empty()) {
      return done(
          NoCredentials(absl::StatusCode::kPermissionDenied, "AWS_PROFILE",
                        absl::StrCat("there is no profile '", Printable(files.profile), "' in ",
                                     Printable(files.credentials), " or ", Printable(files.config),
                                     "; set it to one of theirs")));
    }
    StoreCredentials credentials;
    credentials.key = {TextOf(profile, "aws_access_key_id"),
                       TextOf(profile, "aws_secret_access_key"),
                       TextOf(profile, "aws_session_token")};
    credentials.from = from;
    if (!credentials.key.access_key_id.empty() && !credentials.key.secret_access_key.empty()) {
      return done(credentials);
    }
    for (const char* const unknown :
         {"credential_process", "sso_session", "sso_start_url", "role_arn", "login_session"}) {
      if (profile.count(unknown) == 0) continue;
      return done(NoCredentials(
          absl::StatusCode::kPermissionDenied, from,
          absl::StrCat("has its credentials by ", unknown,
                       ", which is not known here; set the "
                       "variables that `aws configure export-credentials --format env` prints")));
    }
    done(std::nullopt);
  };
  return {find, [=] { return credentials_file->HasChanged() || config_file->HasChanged(); }};
}

CredentialProvider BearerFileCredentials(const std::string& path) {
  const auto file = std::make_shared<FileWatch>(path);
  const auto find = [=](const CredentialProvider::Done& done) {
    if (path.empty()) return done(std::nullopt);
    file->Note();
    const absl::StatusOr<std::string> token = ReadToken(path, "GS_BEARER_TOKEN_FILE");
    if (!token.ok()) return done(token.status());
    StoreCredentials credentials;
    credentials.bearer_token = *token;
    credentials.from = "GS_BEARER_TOKEN_FILE";
    done(credentials);
  };
  return {find, [=] { return file->HasChanged(); }};
}

}  // namespace bulkhead
