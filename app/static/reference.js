// Starts the reference at /docs. Requests go to the address of this page: the API answers no other origin.
(async () => {
  const description = await (await fetch("/docs/openapi.json")).json();
  description.servers = [{ url: window.location.origin, description: "This service" }];
  window.SwaggerUIBundle({
    spec: description,
    dom_id: "#reference",
    deepLinking: true,
    displayOperationId: true,
    displayRequestDuration: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    filter: true,
    persistAuthorization: false,
    validatorUrl: null,
  });
})();
