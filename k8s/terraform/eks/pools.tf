# A node group for each pool of workers: none of its nodes runs while the pool sleeps.

module "plan" {
  source = "../modules/plan"

  cloud        = "eks"
  pools        = var.pools
  default_pool = var.default_pool
  models       = var.models
}

resource "aws_launch_template" "nodes" {
  for_each = merge({ system = 50 }, { for name, group in module.plan.node_groups : name => group.disk_gb })

  name_prefix = "${var.name}-${each.key}-"

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_size           = each.value
      volume_type           = "gp3"
      throughput            = 500
      iops                  = 4000
      encrypted             = true
      delete_on_termination = true
    }
  }

  # Pods do not reach the node's own identity.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  tag_specifications {
    resource_type = "instance"
    tags          = { Name = "${var.name}-${each.key}" }
  }
}

resource "aws_eks_node_group" "workers" {
  for_each = module.plan.node_groups

  cluster_name    = aws_eks_cluster.this.name
  node_group_name = each.key
  node_role_arn   = aws_iam_role.nodes.arn
  subnet_ids      = [for subnet in aws_subnet.private : subnet.id]
  ami_type        = each.value.gpus > 0 ? "AL2023_x86_64_NVIDIA" : "AL2023_x86_64_STANDARD"
  capacity_type   = each.value.spot ? "SPOT" : "ON_DEMAND"
  instance_types  = [each.value.machine]
  labels          = each.value.labels

  scaling_config {
    min_size     = each.value.min_nodes
    desired_size = each.value.min_nodes
    max_size     = each.value.max_nodes
  }

  launch_template {
    id      = aws_launch_template.nodes[each.key].id
    version = aws_launch_template.nodes[each.key].latest_version
  }

  dynamic "taint" {
    for_each = each.value.taints

    content {
      key    = taint.value.key
      value  = taint.value.value
      effect = taint.value.effect
    }
  }

  # The autoscaler says how many there are.
  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }

  depends_on = [aws_iam_role_policy_attachment.nodes, aws_eks_addon.before_nodes]
}
