# What the project must have switched on; it stays on when all else is destroyed.

resource "google_project_service" "needed" {
  for_each = toset(["binaryauthorization", "compute", "container", "iam", "storage"])

  service            = "${each.value}.googleapis.com"
  disable_on_destroy = false
}
