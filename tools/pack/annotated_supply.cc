#include "tools/pack/annotated_supply.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/image/geometry/orientation.h"
#include "server/os/files/filesystem.h"
#include "server/source/file.h"
#include "tools/common/count_text.h"
#include "tools/local/stored_files.h"
#include "tools/pack/class_list.h"
#include "tools/pack/read_file.h"
#include "tools/synth/example.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

using Negatives = AnnotationOptions::Negatives;

// Of the spec that is proposed.
constexpr uint32_t kDetectionSide = 640;
constexpr uint64_t kDetectionBatch = 16;

// What to do about boxes that reach beyond their image.
constexpr char kCutBoxes[] =
    "mend them, or give --bad-boxes cut, which cuts such boxes at the edge of their image";

std::string SizeText(ImageSize size) { return absl::StrCat(size.width, " x ", size.height); }

// A coordinate with two digits behind its point, and the sum of two such, are off by no more.
constexpr double kPixelRounding = 0.01;
constexpr double kShareRounding = 1e-5;

// Moves `low` and `high` into [0, end]; whether that took more than rounding.
bool Cut(double end, double rounding, double& low, double& high) {
  const bool cut = low < -rounding || high > end + rounding;
  low = std::clamp(low, 0.0, end);
  high = std::clamp(high, 0.0, end);
  return cut;
}

bool HasArea(const Corners& corners) {
  return corners.xmin < corners.xmax && corners.ymin < corners.ymax;
}

// What was done to the boxes of an image.
struct Fitted {
  std::vector<ListedBox> boxes;
  uint32_t cut = 0;
  uint32_t dropped = 0;
};

class AnnotatedSupply final : public RecordSupply {
 public:
  AnnotatedSupply(Annotations annotations, const AnnotationOptions& options,
                  std::shared_ptr<ObjectFetcher> objects, MakeImageWorkFn make_image_work)
      : annotations_(std::move(annotations)),
        options_(options),
        objects_(std::move(objects)),
        make_image_work_(std::move(make_image_work)) {}

  // To be called once, first.
  absl::Status Prepare(const FindProgressFn& progress) {
    DropCrowds();
    if (options_.images.empty()) {
      options_.images = IsObjectUrl(annotations_.file) ? FolderOfUrl(annotations_.file)
                                                       : FolderOf(annotations_.file);
    }
    BULKHEAD_RETURN_IF_ERROR(IsObjectUrl(options_.images) ? FindStored(progress) : FindImages());
    BULKHEAD_RETURN_IF_ERROR(FitToListedSizes());
    cut_ = std::vector<std::atomic<uint32_t>>(annotations_.images.size());
    dropped_ = std::vector<std::atomic<uint32_t>>(annotations_.images.size());
    OrderImages();
    if (!order_.empty()) return absl::OkStatus();
    return absl::NotFoundError(
        absl::StrCat(Printable(annotations_.file), ": lists no image to pack"));
  }

  uint64_t record_count() const override { return order_.size(); }
  std::vector<RecordSet> sets() const override {
    if (options_.negatives != Negatives::kApart) return {{"part", record_count()}};
    std::vector<RecordSet> sets;
    if (positives_ > 0) sets.push_back({"pos", positives_});
    if (positives_ < record_count()) sets.push_back({"neg", record_count() - positives_});
    return sets;
  }
  std::string NameOf(uint64_t index) const override { return Printable(ImageAt(index).path); }
  uint64_t InputBytes(uint64_t index) const override { return files_[order_[index]].size_bytes; }
  std::map<std::string, Setting> settings() const override {
    std::map<std::string, Setting> settings;
    // Boxes beyond their image end a run, so those of its files need no cut.
    settings["--bad-boxes"] = {options_.cut_boxes ? "cut" : "fail", "fail"};
    settings["--negatives"] = {options_.negatives == Negatives::kApart  ? "apart"
                               : options_.negatives == Negatives::kDrop ? "drop"
                                                                        : "keep"};
    if (has_crowds()) settings["--crowds"] = {"keep"};
    if (annotations_.relative) settings["--relative"] = {};
    if (options_.upright) settings["--upright"] = {};
    return settings;
  }
  std::string StateOf(uint64_t index) const override {
    const ListedImage& image = ImageAt(index);
    const FileInfo& file = files_[order_[index]];
    std::string state = absl::StrCat(image.path, "\n", annotations_.is_coco, " ", image.id, " ",
                                     image.size.width, " ", image.size.height, " ", file.size_bytes,
                                     " ", file.mtime_ns, KeyOf(index), "\n");
    for (const ListedBox& box : image.boxes) {
      const Corners& corners = box.corners;
      for (const double corner : {corners.xmin, corners.ymin, corners.xmax, corners.ymax}) {
        absl::StrAppendFormat(&state, "%a ", corner);
      }
      absl::StrAppend(&state, box.label, " ", box.is_crowd, "\n");
    }
    return state;
  }
  std::unique_ptr<Reader> NewReader() const override {
    return std::make_unique<AnnotatedReader>(*this);
  }
  v1::PipelineSpec Spec() const override;
  std::vector<SideFile> side_files() const override {
    std::vector<SideFile> files = annotations_.side_files;
    if (!annotations_.classes.empty()) {
      files.push_back({kClassesFile, ClassList(annotations_.classes).Text()});
    }
    return files;
  }
  std::vector<std::string> Notes() const override;

 private:
  class AnnotatedReader final : public Reader {
   public:
    explicit AnnotatedReader(const AnnotatedSupply& supply)
        : supply_(supply), image_work_(supply.make_image_work_()) {
      if (supply.stored_ == nullptr) return;
      stored_.emplace(*supply.stored_,
                      [&supply](uint64_t index) { return supply.numbers_[supply.order_[index]]; });
    }
    void WillRead(uint64_t first, uint64_t end) override {
      if (stored_.has_value()) stored_->WillRead(first, end);
    }

    absl::StatusOr<std::string> Read(uint64_t index) override {
      BULKHEAD_RETURN_IF_ERROR(image_work_.status());
      const ListedImage& image = supply_.ImageAt(index);
      const std::string path = supply_.FullPath(image);
      BULKHEAD_ASSIGN_OR_RETURN(
          const std::string file,
          stored_.has_value() ? stored_->Read(index) : ReadFileOf(path, path, kMostImageFileBytes));
      const absl::StatusOr<ImageLook> look = (*image_work_)->Look(file);
      if (!look.ok()) return Annotate(look.status(), Printable(image.path));
      BULKHEAD_RETURN_IF_ERROR(supply_.CheckSize(image, *look));
      BULKHEAD_ASSIGN_OR_RETURN(const std::vector<ListedBox> boxes,
                                supply_.BoxesInPixels(supply_.order_[index], *look));
      return supply_.Record(image, file, boxes);
    }

   private:
    const AnnotatedSupply& supply_;
    const absl::StatusOr<std::unique_ptr<ImageWork>> image_work_;
    std::optional<StoredFiles::Reader> stored_;  // absent: they are files
  };

  const ListedImage& ImageAt(uint64_t index) const { return annotations_.images[order_[index]]; }
  std::string FullPath(const ListedImage& image) const {
    return NamesObject(options_.images, image.path) ? JoinUrl(options_.images, image.path)
                                                    : JoinPath(options_.images, image.path);
  }

  void DropCrowds() {
    positive_.reserve(annotations_.images.size());
    for (ListedImage& image : annotations_.images) {
      positive_.push_back(!image.boxes.empty());
      if (options_.keep_crowds) continue;
      crowds_dropped_ +=
          std::erase_if(image.boxes, [](const ListedBox& box) { return box.is_crowd; });
    }
  }

  std::string LeadsOut(const ListedImage& image, const std::string& folder) const {
    return absl::StrCat(annotations_.PlaceOf(image), ": ", Printable(image.path), ": leads out of ",
                        folder, "; --images names a folder that holds all images");
  }

  // The images are objects.
  absl::Status FindStored(const FindProgressFn& progress) {
    AnnotationProblems problems(annotations_.file);
    std::vector<std::string> urls;
    for (const ListedImage& image : annotations_.images) {
      urls.push_back(FullPath(image));
      if (IsBelowUrl(urls.back(), options_.images)) continue;
      problems.Add(LeadsOut(image, ShownUrl(options_.images)));
    }
    BULKHEAD_RETURN_IF_ERROR(problems.status());
    BULKHEAD_ASSIGN_OR_RETURN(stored_, StoredFiles::Named(objects_, urls, progress));
    for (size_t i = 0; i < urls.size(); ++i) {
      const auto number = stored_->table().Find(urls[i]);
      numbers_.push_back(number.ok() ? *number : 0);
      files_.emplace_back();
      if (absl::IsNotFound(number.status())) {
        problems.Add(absl::StrCat(annotations_.PlaceOf(annotations_.images[i]), ": ",
                                  ShownUrl(urls[i]),
                                  ": there is no such object; --images names the images' folder"));
        continue;
      }
      BULKHEAD_RETURN_IF_ERROR(number.status());
      BULKHEAD_ASSIGN_OR_RETURN(const ObjectTable::Entry entry, stored_->table().Get(*number));
      files_.back().size_bytes = entry.size_bytes;
      files_.back().mtime_ns = entry.mtime_ns;
    }
    return problems.status();
  }

  // " KEY", the state of a record's object; "" of a file.
  std::string KeyOf(uint64_t index) const {
    if (stored_ == nullptr) return "";
    const auto entry = stored_->table().Get(numbers_[order_[index]]);
    return absl::StrCat(" ", entry.ok() ? stored_->table().KeyOf(*entry) : "");
  }

  absl::Status FindImages() {
    AnnotationProblems problems(annotations_.file);
    const fs::path folder = fs::absolute(options_.images).lexically_normal();
    for (const ListedImage& image : annotations_.images) {
      const std::string path = FullPath(image);
      const fs::path inside = fs::absolute(path).lexically_normal().lexically_relative(folder);
      if (IsObjectUrl(path) || inside.empty() || *inside.begin() == "..") {
        files_.emplace_back();
        problems.Add(LeadsOut(image, folder.string()));
        continue;
      }
      const auto info = StatFile(path);
      files_.push_back(info.ok() ? *info : FileInfo());
      if (info.ok() && info->is_regular) continue;
      problems.Add(absl::StrCat(annotations_.PlaceOf(image), ": ", Printable(path), ": ",
                                info.ok() ? "is no file"
                                : absl::IsNotFound(info.status())
                                    ? "there is no such file; --images "
                                      "names the images' folder"
                                    : info.status().message()));
    }
    return problems.status();
  }

  // Cuts the boxes at the edges of an image of `width` and `height`, in the unit of the boxes. What
  // reaches beyond them by at most `rounding` counts as inside: it is rounded. Boxes that do not
  // fit are problems, with `behind` behind each, unless they are to be cut.
  Fitted FitBoxes(const ListedImage& image, double width, double height, double rounding,
                  absl::string_view behind, AnnotationProblems& problems) const {
    Fitted fitted;
    for (ListedBox box : image.boxes) {
      const Corners listed = box.corners;
      const bool cut_across = Cut(width, rounding, box.corners.xmin, box.corners.xmax);
      const bool cut_down = Cut(height, rounding, box.corners.ymin, box.corners.ymax);
      const bool is_left = HasArea(box.corners);
      if ((cut_across || cut_down || !is_left) && !options_.cut_boxes) {
        const std::string problem =
            HasArea(listed)
                ? absl::StrCat("reaches beyond its image: ", listed.xmin, ", ", listed.ymin, " to ",
                               listed.xmax, ", ", listed.ymax, " in ", width, " x ", height)
                : "has no area";
        problems.Add(absl::StrCat(annotations_.PlaceOf(box), ": ", problem, behind));
      } else if (!is_left) {
        ++fitted.dropped;
      } else {
        fitted.cut += cut_across || cut_down ? 1 : 0;
        fitted.boxes.push_back(box);
      }
    }
    return fitted;
  }

  // What can be told before an image is opened.
  absl::Status FitToListedSizes() {
    AnnotationProblems problems(annotations_.file, kCutBoxes);
    for (ListedImage& image : annotations_.images) {
      const bool has_size = image.size.width > 0;
      if (!has_size && !annotations_.relative) continue;
      Fitted fitted =
          FitBoxes(image, has_size ? image.size.width : 1, has_size ? image.size.height : 1,
                   has_size ? kPixelRounding : kShareRounding, "", problems);
      listed_cut_ += fitted.cut;
      listed_dropped_ += fitted.dropped;
      image.boxes = std::move(fitted.boxes);
    }
    return problems.status();
  }

  void OrderImages() {
    for (const bool positive : {true, false}) {
      for (uint64_t i = 0; i < annotations_.images.size(); ++i) {
        const bool is_first =
            options_.negatives == Negatives::kKeep ? positive : positive_[i] == positive;
        if (is_first) order_.push_back(i);
      }
      if (positive) positives_ = order_.size();
      if (options_.negatives != Negatives::kApart) break;
    }
    for (const uint64_t number : order_) {
      const ListedImage& image = annotations_.images[number];
      most_boxes_ = std::max<uint64_t>(most_boxes_, image.boxes.size());
      longest_path_ = std::max<uint64_t>(longest_path_, image.path.size());
    }
  }

  absl::Status CheckSize(const ListedImage& image, const ImageLook& look) const {
    if (image.size.width == 0 || image.size == SizeOf(look)) return absl::OkStatus();
    const bool turns = image.size == UprightSize(look.size, look.orientation);
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kListInvalid,
        absl::StrCat(annotations_.PlaceOf(image), ": is ", SizeText(image.size), " there, but ",
                     SizeText(SizeOf(look)), " in ", Printable(FullPath(image)),
                     turns ? ", whose EXIF turns it: give --upright" : "; are these its boxes?"),
        {{"file", annotations_.file}});
  }
  // The size of the image whose pixels the boxes count.
  ImageSize SizeOf(const ImageLook& look) const {
    return options_.upright ? UprightSize(look.size, look.orientation) : look.size;
  }

  absl::StatusOr<std::vector<ListedBox>> BoxesInPixels(uint64_t number,
                                                       const ImageLook& look) const {
    const ListedImage& image = annotations_.images[number];
    const ImageSize size = SizeOf(look);
    if (image.size.width > 0) return image.boxes;
    if (annotations_.relative) {
      std::vector<ListedBox> boxes = image.boxes;
      for (ListedBox& box : boxes) {
        box.corners.xmin *= size.width;
        box.corners.ymin *= size.height;
        box.corners.xmax *= size.width;
        box.corners.ymax *= size.height;
      }
      return boxes;
    }
    AnnotationProblems problems(annotations_.file, kCutBoxes);
    Fitted fitted = FitBoxes(image, size.width, size.height, kPixelRounding,
                             absl::StrCat(", ", Printable(image.path)), problems);
    BULKHEAD_RETURN_IF_ERROR(problems.status());
    cut_[number] = fitted.cut;
    dropped_[number] = fitted.dropped;
    return std::move(fitted.boxes);
  }

  std::string Record(const ListedImage& image, absl::string_view file,
                     const std::vector<ListedBox>& boxes) const {
    ExampleBuilder example;
    example.Bytes("image", file).Bytes("path", image.path);
    auto& corners = example.Floats("boxes");
    auto& labels = example.Int64s("labels");
    for (const ListedBox& box : boxes) {
      for (const double corner :
           {box.corners.xmin, box.corners.ymin, box.corners.xmax, box.corners.ymax}) {
        corners.Add(static_cast<float>(corner));
      }
      labels.Add(box.label);
    }
    if (annotations_.is_coco) example.Int64("image_id", image.id);
    if (has_crowds()) {
      auto& crowds = example.Int64s("iscrowd");
      for (const ListedBox& box : boxes) crowds.Add(box.is_crowd ? 1 : 0);
    }
    return example.Serialize();
  }

  bool has_crowds() const { return annotations_.is_coco && options_.keep_crowds; }

  Annotations annotations_;
  AnnotationOptions options_;
  const std::shared_ptr<ObjectFetcher> objects_;
  const MakeImageWorkFn make_image_work_;
  std::unique_ptr<StoredFiles> stored_;  // null: the images are files
  std::vector<uint64_t> numbers_;        // of the objects, by image
  std::vector<bool> positive_;           // by image: the file lists a box
  std::vector<FileInfo> files_;          // by image
  std::vector<uint64_t> order_;          // the images of the records
  uint64_t positives_ = 0;               // that come first
  uint64_t most_boxes_ = 0;
  uint64_t longest_path_ = 0;
  uint64_t crowds_dropped_ = 0;
  // Boxes that were cut and dropped by the size that the file lists, and by that of the image,
  // which is known when it is read. Of each image, because some are read twice.
  uint64_t listed_cut_ = 0;
  uint64_t listed_dropped_ = 0;
  mutable std::vector<std::atomic<uint32_t>> cut_;
  mutable std::vector<std::atomic<uint32_t>> dropped_;
};

v1::PipelineSpec AnnotatedSupply::Spec() const {
  google::protobuf::Map<std::string, v1::Feature> features;
  const uint64_t most = std::max<uint64_t>(1, most_boxes_);
  const auto rows = [&](auto& typed) {
    typed.add_shape(-1);
    typed.set_max_count(most);
  };
  features["image"].mutable_bytes();
  features["path"].mutable_bytes()->set_max_bytes(std::max<uint64_t>(1, longest_path_));
  rows(*features["boxes"].mutable_float_());
  features["boxes"].mutable_float_()->add_shape(4);
  rows(*features["labels"].mutable_int64());
  if (ClassList::FitsIntoSpec(annotations_.classes)) {
    *features["labels"].mutable_int64()->mutable_classes() = {annotations_.classes.begin(),
                                                              annotations_.classes.end()};
  }
  if (annotations_.is_coco) features["image_id"].mutable_int64();
  if (has_crowds()) rows(*features["iscrowd"].mutable_int64());

  v1::PipelineSpec spec;
  const std::vector<RecordSet> all = sets();
  if (all.size() == 1) {
    spec.mutable_source()->mutable_tfrecord()->add_files(all[0].name + "-*.tfrecord");
    *spec.mutable_features() = features;
    spec.mutable_order()->mutable_global();
  } else {
    v1::MixtureSource& mixture = *spec.mutable_source()->mutable_mixture();
    mixture.set_stop(v1::MIXTURE_STOP_ALL_EXHAUSTED);
    for (const RecordSet& set : all) {
      v1::MixedSource& mixed = *mixture.add_sources();
      mixed.set_weight(static_cast<double>(set.record_count));
      mixed.mutable_source()->mutable_tfrecord()->add_files(set.name + "-*.tfrecord");
      *mixed.mutable_features() = features;
      mixed.mutable_order()->mutable_global();
    }
  }
  v1::DecodeImage& decode = *spec.add_stages()->mutable_decode_image();
  if (options_.upright) decode.set_exif_orientation(true);
  spec.add_stages()->mutable_boxes()->set_format(v1::BOX_FORMAT_XYXY);
  spec.add_stages()->mutable_random_horizontal_flip();
  spec.add_stages()->mutable_resize()->add_size(kDetectionSide);
  v1::SanitizeBoxes& sanitize = *spec.add_stages()->mutable_sanitize_boxes();
  sanitize.add_with("labels");
  if (has_crowds()) sanitize.add_with("iscrowd");
  spec.mutable_batch()->set_size(kDetectionBatch);
  return spec;
}

std::vector<std::string> AnnotatedSupply::Notes() const {
  std::vector<std::string> notes = annotations_.notes;
  const auto note = [&](uint64_t count, absl::string_view text) {
    if (count > 0) notes.push_back(absl::StrCat(CountText(count, "box", "boxes"), " ", text));
  };
  uint64_t cut = listed_cut_;
  uint64_t dropped = listed_dropped_;
  for (const auto& count : cut_) cut += count;
  for (const auto& count : dropped_) dropped += count;
  note(cut, "cut at the edge of the image");
  note(dropped, "without an area in the image left out");
  note(crowds_dropped_, "around groups (iscrowd) left out");
  if (!ClassList::FitsIntoSpec(annotations_.classes)) {
    notes.push_back(
        absl::StrCat("the spec has no names of classes: one is empty, no text, or there "
                     "twice, or they are too many; ",
                     kClassesFile, " has them"));
  }
  const uint64_t images = annotations_.images.size() - record_count();
  if (images > 0) {
    notes.push_back(absl::StrCat(CountText(images, "image"), " without boxes left out"));
  }
  return notes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSupply>> SupplyAnnotated(
    Annotations annotations, const AnnotationOptions& options,
    std::shared_ptr<ObjectFetcher> objects, MakeImageWorkFn make_image_work,
    const FindProgressFn& progress) {
  auto supply = std::make_unique<AnnotatedSupply>(std::move(annotations), options,
                                                  std::move(objects), std::move(make_image_work));
  BULKHEAD_RETURN_IF_ERROR(supply->Prepare(progress));
  return supply;
}

}  // namespace bulkhead::tools
