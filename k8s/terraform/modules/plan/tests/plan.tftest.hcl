# `terraform test`: no provider, no cloud.

variables {
  cloud = "gke"
  pools = {
    cpu     = { profile = "cpu", min_nodes = 1, max_nodes = 3 }
    l4-spot = { profile = "l4", spot = true, max_nodes = 10, preload = ["BAAI/bge-m3"] }
  }
  models = { "BAAI/bge-m3" = ["l4-spot", "cpu"] }
}

run "a_pool_sleeps_unless_it_is_told_to_stay_warm" {
  command = plan

  assert {
    condition     = output.node_groups["l4-spot"].min_nodes == 0 && output.node_groups["cpu"].min_nodes == 1
    error_message = "min_nodes is 0 by default, and as given."
  }
  assert {
    condition     = yamldecode(output.chart_values).pools["l4-spot"].minReplicas == 0
    error_message = "A pool without nodes keeps no workers."
  }
}

run "gke_finds_gpu_nodes_by_its_own_labels" {
  command = plan

  assert {
    condition     = output.node_groups["l4-spot"].machine == "g2-standard-8" && output.node_groups["l4-spot"].accelerator == "nvidia-l4"
    error_message = "An L4 has its machine and accelerator."
  }
  assert {
    condition     = output.node_groups["l4-spot"].labels == { "sie-mcp/node-pool" = "l4-spot" }
    error_message = "GKE labels GPUs itself."
  }
  assert {
    condition     = jsonencode(output.node_groups["l4-spot"].taints) == jsonencode([{ key = "cloud.google.com/gke-spot", value = "true", effect = "NO_SCHEDULE" }])
    error_message = "Spot nodes keep others off; GKE taints GPUs itself."
  }
  assert {
    condition     = output.node_groups["cpu"].gpus == 0 && output.node_groups["cpu"].accelerator == "" && length(output.node_groups["cpu"].taints) == 0
    error_message = "A CPU pool has neither GPUs nor taints."
  }
}

run "eks_is_told_what_an_autoscaler_must_know_at_zero" {
  command = plan
  variables {
    cloud = "eks"
  }

  assert {
    condition     = output.node_groups["l4-spot"].labels["nvidia.com/gpu.product"] == "NVIDIA-L4"
    error_message = "The label by which the chart finds the nodes."
  }
  assert {
    condition     = jsonencode(output.node_groups["l4-spot"].taints) == jsonencode([{ key = "nvidia.com/gpu", value = "present", effect = "NO_SCHEDULE" }])
    error_message = "Nothing else runs on GPU nodes."
  }
  assert {
    condition     = !contains(keys(output.node_groups["cpu"].labels), "nvidia.com/gpu.product")
    error_message = "A CPU pool names no GPU."
  }
}

run "a_machine_with_several_gpus_has_as_many_workers" {
  command = plan
  variables {
    cloud  = "eks"
    models = {}
    pools = {
      big = { profile = "a100", max_nodes = 2 }
      own = { profile = "l4", machine = "g6.12xlarge", gpus = 4, min_nodes = 1, max_nodes = 3, disk_gb = 700 }
    }
  }

  assert {
    condition     = yamldecode(output.chart_values).pools.big.maxReplicas == 16
    error_message = "Two machines of eight."
  }
  assert {
    condition = (yamldecode(output.chart_values).pools.own.minReplicas == 4
      && yamldecode(output.chart_values).pools.own.maxReplicas == 12
    && output.node_groups["own"].machine == "g6.12xlarge" && output.node_groups["own"].disk_gb == 700)
    error_message = "A machine of one's own comes before the profile's."
  }
  assert {
    condition     = yamldecode(output.chart_values).pools.cpu == null
    error_message = "The chart's own pool is taken away."
  }
}

run "switching_models_changes_no_node" {
  command = plan
  variables {
    models = { "other/model" = ["cpu"] }
  }

  assert {
    condition     = yamldecode(output.chart_values).catalogue.pools == { "other/model" = ["cpu"] }
    error_message = "Models are the chart's values alone."
  }
  assert {
    condition     = keys(output.node_groups) == ["cpu", "l4-spot"]
    error_message = "Node groups are those of pools."
  }
}

run "another_cloud_is_refused" {
  command = plan
  variables {
    cloud = "aks"
  }
  expect_failures = [var.cloud]
}

run "no_pools_are_refused" {
  command = plan
  variables {
    pools  = {}
    models = {}
  }
  expect_failures = [var.pools]
}

run "a_name_that_kubernetes_would_not_take_is_refused" {
  command = plan
  variables {
    pools  = { L4_spot = { profile = "l4" } }
    models = {}
  }
  expect_failures = [var.pools]
}

run "a_profile_that_the_chart_does_not_have_is_refused" {
  command = plan
  variables {
    pools  = { b200 = { profile = "b200" } }
    models = {}
  }
  expect_failures = [var.pools]
}

run "more_nodes_at_least_than_at_most_are_refused" {
  command = plan
  variables {
    pools  = { l4 = { profile = "l4", min_nodes = 3, max_nodes = 2 } }
    models = {}
  }
  expect_failures = [var.pools]
}

run "a_machine_whose_gpus_nobody_counted_is_refused" {
  command = plan
  variables {
    pools  = { l4 = { profile = "l4", machine = "g2-standard-96" } }
    models = {}
  }
  expect_failures = [var.pools]
}

run "an_h100_on_demand_is_refused_where_there_is_none" {
  command = plan
  variables {
    pools  = { h100 = { profile = "h100" } }
    models = {}
  }
  expect_failures = [var.pools]
}

run "a_default_that_is_no_pool_is_refused" {
  command = plan
  variables {
    default_pool = "l5"
  }
  expect_failures = [var.default_pool]
}

run "a_model_of_a_pool_that_is_not_there_is_refused" {
  command = plan
  variables {
    models = { "org/model" = ["h100"] }
  }
  expect_failures = [var.models]
}
