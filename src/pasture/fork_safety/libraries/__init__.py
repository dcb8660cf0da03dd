"""What is known of single libraries."""
