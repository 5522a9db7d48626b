package app_test

import ()

// canary is the secret of these tests. Nothing
// that a gateway says may hold it.
const canary = "canary-5f2c7a9be1d34c60a8f1b2c3d4e5f607"
