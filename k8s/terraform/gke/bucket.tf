# A bucket for models and indexes. Pods reach it as their service accounts of Kubernetes: there is no key.

data "google_project" "this" {}

locals {
  principal = "principal://iam.googleapis.com/projects/${data.google_project.this.number}/locations/global/workloadIdentityPools/${var.project}.svc.id.goog/subject/ns/${var.namespace}/sa"
}

resource "google_storage_bucket" "models" {
  name                        = "${var.project}-${var.name}-models"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  versioning {
    enabled = true
  }

  lifecycle_rule {
    condition {
      num_newer_versions         = 2
      days_since_noncurrent_time = 30
    }

    action {
      type = "Delete"
    }
  }
}

resource "google_storage_bucket_iam_member" "worker" {
  bucket = google_storage_bucket.models.name
  role   = "roles/storage.objectViewer"
  member = "${local.principal}/sie-sie-mcp-worker"
}

resource "google_storage_bucket_iam_member" "gateway" {
  bucket = google_storage_bucket.models.name
  role   = "roles/storage.objectUser"
  member = "${local.principal}/sie-sie-mcp-gateway"
}
