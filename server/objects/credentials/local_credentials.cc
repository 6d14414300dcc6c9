#include "server/objects/credentials/local_credentials.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/record_name.h"
#include "server/objects/credentials/found_credentials.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

// Whether a file is another one than when it was read.
class FileWatch {
 public:
  explicit FileWatch(std::string path) : path_(std::move(path)) { Note(); }

  const std::string& path() const { return path_; }
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

class VariableProvider : public CredentialProvider {
 public:
  VariableProvider(Environment environment, std::string prefix)
      : environment_(std::move(environment)), prefix_(std::move(prefix)) {}

  void Find(Done done) override {
    StoreCredentials credentials;
    credentials.key.access_key_id = Get("ACCESS_KEY_ID");
    credentials.key.secret_access_key = Get("SECRET_ACCESS_KEY");
    credentials.key.session_token = Get("SESSION_TOKEN");
    credentials.from = absl::StrCat(prefix_, "ACCESS_KEY_ID");
    const bool has_id = !credentials.key.access_key_id.empty();
    const bool has_secret = !credentials.key.secret_access_key.empty();
    if (has_id != has_secret) {
      return done(NoCredentials(
          absl::StatusCode::kPermissionDenied,
          absl::StrCat(prefix_, has_id ? "ACCESS_KEY_ID" : "SECRET_ACCESS_KEY"),
          absl::StrCat("is set without ", prefix_, has_id ? "SECRET_ACCESS_KEY" : "ACCESS_KEY_ID",
                       "; set both")));
    }
    done(has_id ? std::optional<StoreCredentials>(credentials) : std::nullopt);
  }

 private:
  std::string Get(const char* name) const {
    return Variable(environment_, absl::StrCat(prefix_, name).c_str());
  }

  const Environment environment_;
  const std::string prefix_;  // "AWS_"
};

class SharedFileProvider : public CredentialProvider {
 public:
  explicit SharedFileProvider(const AwsFiles& files)
      : profile_(files.profile),
        is_chosen_(files.is_chosen),
        credentials_(files.credentials),
        config_(files.config) {}

  void Find(Done done) override {
    credentials_.Note();
    config_.Note();
    AwsProfile profile = ReadAwsProfile(credentials_.path(), profile_);
    const std::string from = absl::StrCat("the profile '", Printable(profile_), "'");
    if (profile.count("aws_access_key_id") == 0) {
      const AwsProfile of_config = ReadAwsProfile(config_.path(), profile_);
      profile.insert(of_config.begin(), of_config.end());
    }
    if (is_chosen_ && profile.empty()) {
      return done(
          NoCredentials(absl::StatusCode::kPermissionDenied, "AWS_PROFILE",
                        absl::StrCat("there is no profile '", Printable(profile_), "' in ",
                                     Printable(credentials_.path()), " or ",
                                     Printable(config_.path()), "; set it to one of theirs")));
    }
    StoreCredentials credentials;
    credentials.key.access_key_id = TextOf(profile, "aws_access_key_id");
    credentials.key.secret_access_key = TextOf(profile, "aws_secret_access_key");
    credentials.key.session_token = TextOf(profile, "aws_session_token");
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
  }

  bool HasChanged() override { return credentials_.HasChanged() || config_.HasChanged(); }

 private:
  const std::string profile_;
  const bool is_chosen_;
  FileWatch credentials_;
  FileWatch config_;
};

class BearerFileProvider : public CredentialProvider {
 public:
  explicit BearerFileProvider(std::string path) : file_(std::move(path)) {}

  void Find(Done done) override {
    if (file_.path().empty()) return done(std::nullopt);
    file_.Note();
    absl::StatusOr<std::string> token = ReadToken(file_.path(), "GS_BEARER_TOKEN_FILE");
    if (!token.ok()) return done(token.status());
    StoreCredentials credentials;
    credentials.bearer_token = *std::move(token);
    credentials.from = "GS_BEARER_TOKEN_FILE";
    done(credentials);
  }

  bool HasChanged() override { return file_.HasChanged(); }

 private:
  FileWatch file_;
};

}  // namespace

std::unique_ptr<CredentialProvider> VariableCredentials(const Environment& environment,
                                                        const std::string& prefix) {
  return std::make_unique<VariableProvider>(environment, prefix);
}

std::unique_ptr<CredentialProvider> ProfileCredentials(const AwsFiles& files) {
  return std::make_unique<SharedFileProvider>(files);
}

std::unique_ptr<CredentialProvider> BearerFileCredentials(const std::string& path) {
  return std::make_unique<BearerFileProvider>(path);
}

}  // namespace bulkhead
