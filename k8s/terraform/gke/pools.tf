# A node pool for each pool of workers: none of its nodes runs while the pool sleeps.

module "plan" {
  source = "../modules/plan"

  cloud        = "gke"
  pools        = var.pools
  default_pool = var.default_pool
  models       = var.models
}

resource "google_container_node_pool" "workers" {
  for_each = module.plan.node_groups

  name           = each.key
  cluster        = google_container_cluster.this.id
  location       = var.region
  node_locations = each.value.gpus > 0 && length(var.zones) > 0 ? var.zones : null

  autoscaling {
    total_min_node_count = each.value.min_nodes
    total_max_node_count = each.value.max_nodes
    # Spot: wherever there are some.
    location_policy = each.value.spot ? "ANY" : "BALANCED"
  }

  management {
    auto_repair  = true
    auto_upgrade = true
  }

  node_config {
    machine_type    = each.value.machine
    spot            = each.value.spot
    disk_size_gb    = each.value.disk_gb
    disk_type       = "pd-balanced"
    labels          = each.value.labels
    service_account = google_service_account.nodes.email
    oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]

    metadata = { disable-legacy-endpoints = "true" }

    dynamic "guest_accelerator" {
      for_each = each.value.gpus > 0 ? [each.value] : []

      content {
        type  = guest_accelerator.value.accelerator
        count = guest_accelerator.value.gpus

        gpu_driver_installation_config {
          gpu_driver_version = "LATEST"
        }
      }
    }

    dynamic "taint" {
      for_each = each.value.taints

      content {
        key    = taint.value.key
        value  = taint.value.value
        effect = taint.value.effect
      }
    }

    workload_metadata_config {
      mode = "GKE_METADATA"
    }

    shielded_instance_config {
      # Drivers of GPUs are not signed for it.
      enable_secure_boot          = each.value.gpus == 0
      enable_integrity_monitoring = true
    }
  }
}
