// Package openapi makes the two OpenAPI 3.1 documents of the gateway: of the public listener (/openapi.json) and of the
// admin listener (/admin/openapi.json). Start at [Public] and [Admin]. It opens no files and uses no network; the same
// tables give the same bytes.
//
// What each part is made from:
//   - public.go and admin.go list the operations: one row for each path and method.
//   - public.schemas.json holds the bodies of the public listener. It is written by hand. The request fields that are
//     removed, refused or forbidden are added to it from tiers/fields.
//   - admin.schemas.json holds the bodies of the admin listener. It is generated from the Go types of packages gateway and
//     gateway/usage, with their comments: go test ./gateway/openapi -update
//   - headers and error codes are tables of package gateway (headers.go, errorcodes.go).
//
// To add a path to the admin listener, add its row to [adminOperations]. A body that is a Go type of package gateway is
// named there, view("UsageView") or list("UsageView"), and go test ./gateway/openapi -update writes its schema. Then
// add a request that the test in gateway/app/openapi_test.go sends (adminCalls). A new error code is one row of
// gateway.ErrorCodes, and make docs. Tests fail until all of this is done, and their messages say what is missing.
package openapi
