// What the pages do beyond their HTML, all of which works without it: times in the reader's zone, and keys.
"use strict";

(() => {
  const short = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

  function showLocalTimes(root) {
    for (const element of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(element.dateTime);
      if (!Number.isNaN(moment.getTime())) {
        element.textContent = short.format(moment);
      }
    }
  }

  showLocalTimes(document);
  document.addEventListener("htmx:after:swap", () => showLocalTimes(document));

  // Details that were open stay open when a live part is replaced.
  const open = new Set();
  document.addEventListener("toggle", (event) => {
    const title = event.target.querySelector?.("summary")?.textContent;
    if (title) {
      event.target.open ? open.add(title) : open.delete(title);
    }
  }, true);
  document.addEventListener("htmx:after:swap", () => {
    for (const details of document.querySelectorAll("details")) {
      details.open ||= open.has(details.querySelector("summary").textContent);
    }
  });

  // A frame follows the form that fills it. It is a new one each time, so that the way back leads to the page before.
  function fillFrame() {
    const button = document.querySelector("[data-fills-frame]");
    const frame = button && document.querySelector(`iframe[name="${button.formTarget}"]`);
    if (frame) {
      frame.replaceWith(frame.cloneNode());
      button.form.requestSubmit(button);
    }
  }

  fillFrame();
  document.addEventListener("htmx:after:swap", fillFrame);

  // Texts to copy get a button, where the browser lets a script copy.
  function addCopyButtons() {
    for (const element of document.querySelectorAll("[data-copy]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = "Copy";
      button.setAttribute("aria-label", `Copy ${element.dataset.copy}`);
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(element.textContent);
        button.textContent = "Copied";
      });
      element.after(" ", button);
    }
  }

  // A form that was edited is not left by accident: the browser asks. What goes into a frame leaves nothing.
  let edited = document.querySelector("form[data-unsaved]");
  document.addEventListener("input", (event) => {
    if (event.target.form?.method === "post" && document.querySelector(".bar .who")) {
      edited = event.target.form;
    }
  });
  document.addEventListener("submit", (event) => {
    if (!event.submitter?.formTarget) {
      edited = null;
    }
  });
  window.addEventListener("beforeunload", (event) => {
    if (edited?.isConnected) {
      event.preventDefault();
    }
  });

  if (navigator.clipboard) {
    addCopyButtons();
  }

  let goes = false;

  function isTyping(target) {
    return target.closest("input, textarea, select, [contenteditable]") !== null;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) {
      return;
    }
    const wentBefore = goes;
    goes = false;
    if (wentBefore) {
      const link = [...document.querySelectorAll(".bar [data-key]")].find((one) => one.dataset.key === event.key);
      if (link) {
        event.preventDefault();
        link.click();
      }
    } else if (event.key === "g") {
      goes = true;
    } else if (event.key === "?") {
      document.getElementById("keys")?.showModal();
    } else if (event.key === "/") {
      const search =
        document.querySelector("main input[type=search]") ?? document.querySelector(".bar input[type=search]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    }
  });
})();
