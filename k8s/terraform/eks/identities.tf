# Pods reach AWS as their service accounts of Kubernetes (EKS Pod Identity): there is no key.

locals {
  identities = {
    worker     = { namespace = var.namespace, account = "sie-sie-mcp-worker" }
    gateway    = { namespace = var.namespace, account = "sie-sie-mcp-gateway" }
    autoscaler = { namespace = "kube-system", account = "cluster-autoscaler" }
  }

  policies = {
    worker     = data.aws_iam_policy_document.reads.json
    gateway    = data.aws_iam_policy_document.writes.json
    autoscaler = data.aws_iam_policy_document.scales.json
  }
}

data "aws_iam_policy_document" "assumed_by_pods" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "reads" {
  statement {
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.models.arn]
  }

  statement {
    actions   = ["s3:GetObject"]
    resources = ["${aws_s3_bucket.models.arn}/*"]
  }

  statement {
    actions   = ["kms:Decrypt"]
    resources = [aws_kms_key.this.arn]
  }
}

data "aws_iam_policy_document" "writes" {
  source_policy_documents = [data.aws_iam_policy_document.reads.json]

  statement {
    actions   = ["s3:PutObject", "s3:DeleteObject"]
    resources = ["${aws_s3_bucket.models.arn}/*"]
  }

  statement {
    actions   = ["kms:GenerateDataKey"]
    resources = [aws_kms_key.this.arn]
  }
}

data "aws_iam_policy_document" "scales" {
  statement {
    actions = [
      "autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeAutoScalingInstances",
      "autoscaling:DescribeLaunchConfigurations", "autoscaling:DescribeScalingActivities",
      "autoscaling:DescribeTags", "ec2:DescribeImages", "ec2:DescribeInstanceTypes",
      "ec2:DescribeLaunchTemplateVersions", "ec2:GetInstanceTypesFromInstanceRequirements",
      # Labels and taints of groups that have no node.
      "eks:DescribeNodegroup",
    ]
    resources = ["*"]
  }

  statement {
    actions   = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    resources = ["*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/kubernetes.io/cluster/${var.name}"
      values   = ["owned"]
    }
  }
}

resource "aws_iam_role" "pods" {
  for_each = local.identities

  name               = "${var.name}-${each.key}"
  assume_role_policy = data.aws_iam_policy_document.assumed_by_pods.json
}

resource "aws_iam_role_policy" "pods" {
  for_each = local.policies

  name   = "${var.name}-${each.key}"
  role   = aws_iam_role.pods[each.key].id
  policy = each.value
}

resource "aws_eks_pod_identity_association" "pods" {
  for_each = local.identities

  cluster_name    = aws_eks_cluster.this.name
  namespace       = each.value.namespace
  service_account = each.value.account
  role_arn        = aws_iam_role.pods[each.key].arn
}
