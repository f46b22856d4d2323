# Which nodes a cluster has and what the chart is told of them. Asks no cloud: only names and numbers.

locals {
  # A worker takes one GPU; what it asks for in the chart's profile fits the machine as often as it has GPUs.
  machines = {
    gke = {
      cpu  = { machine = "n2-standard-8", gpus = 0, disk_gb = 100 }
      l4   = { machine = "g2-standard-8", gpus = 1, disk_gb = 200 }
      a100 = { machine = "a2-highgpu-1g", gpus = 1, disk_gb = 300 }
      h100 = { machine = "a3-highgpu-1g", gpus = 1, disk_gb = 400 }
    }
    eks = {
      cpu  = { machine = "m7i.2xlarge", gpus = 0, disk_gb = 100 }
      l4   = { machine = "g6.2xlarge", gpus = 1, disk_gb = 200 }
      a100 = { machine = "p4d.24xlarge", gpus = 8, disk_gb = 1800 }
      h100 = { machine = "p5.4xlarge", gpus = 1, disk_gb = 400 }
    }
  }

  # As in `profiles` of the chart's values.
  accelerators = { l4 = "nvidia-l4", a100 = "nvidia-tesla-a100", h100 = "nvidia-h100-80gb" }
  products     = { l4 = "NVIDIA-L4", a100 = "NVIDIA-A100-SXM4-40GB", h100 = "NVIDIA-H100-80GB-HBM3" }

  sized = {
    for name, pool in var.pools : name => merge(pool, {
      machine = coalesce(pool.machine, local.machines[var.cloud][pool.profile].machine)
      gpus    = pool.profile == "cpu" ? 0 : coalesce(pool.gpus, local.machines[var.cloud][pool.profile].gpus)
      disk_gb = coalesce(pool.disk_gb, local.machines[var.cloud][pool.profile].disk_gb)
    })
  }

  node_groups = {
    for name, pool in local.sized : name => {
      machine     = pool.machine
      spot        = pool.spot
      min_nodes   = pool.min_nodes
      max_nodes   = pool.max_nodes
      disk_gb     = pool.disk_gb
      gpus        = pool.gpus
      accelerator = lookup(local.accelerators, pool.profile, "")
      labels = merge(
        { "sie-mcp/node-pool" = name },
        # An autoscaler that starts at zero reads labels of the group; feature discovery comes later.
        var.cloud == "eks" && pool.gpus > 0 ? { "nvidia.com/gpu.product" = local.products[pool.profile] } : {},
      )
      # GKE taints nodes with GPUs by itself; both clouds label spot nodes by themselves.
      taints = concat(
        var.cloud == "eks" && pool.gpus > 0 ? [{ key = "nvidia.com/gpu", value = "present", effect = "NO_SCHEDULE" }] : [],
        var.cloud == "gke" && pool.spot ? [{ key = "cloud.google.com/gke-spot", value = "true", effect = "NO_SCHEDULE" }] : [],
      )
    }
  }

  chart_pools = {
    for name, pool in local.sized : name => {
      profile      = pool.profile
      spot         = pool.spot
      minReplicas  = pool.min_nodes * max(pool.gpus, 1)
      maxReplicas  = pool.max_nodes * max(pool.gpus, 1)
      preload      = pool.preload
      nodeSelector = { "sie-mcp/node-pool" = name }
    }
  }
}
