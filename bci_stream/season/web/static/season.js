// Keeps the parts marked data-live up to date, and shows how much of an upload has been sent.
const PERIOD_MS = 2000, IDLE_PERIOD_MS = 10000, QUICK_MS = 30000;

// Often while something happens on the page, and at first; a thousand pages that only wait must not load the server.
function period() {
  const busy = document.querySelector(".stage.running, .stage.checking") || performance.now() < QUICK_MS;
  return busy ? PERIOD_MS : IDLE_PERIOD_MS;
}

let tag = "";  // of the page that is shown: the server does not send it again

async function refresh() {
  const parts = document.querySelectorAll("[data-live]");
  if (parts.length && !document.hidden) {
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", headers: tag ? { "If-None-Match": tag } : {} });
      if (answer.ok) {
        tag = answer.headers.get("ETag") ?? "";
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of parts) {
          const fresh = page.getElementById(part.id);
          if (fresh && fresh.innerHTML !== part.innerHTML) part.replaceWith(document.adoptNode(fresh));
        }
      }
    } catch { /* the server is away: tried again */ }
  }
  setTimeout(refresh, period());
}
setTimeout(refresh, period());

const form = document.getElementById("submit");
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  const button = form.querySelector("button"), sent = document.getElementById("sent");
  const request = new XMLHttpRequest();
  button.disabled = true;
  sent.hidden = false;
  request.upload.onprogress = (e) => { if (e.lengthComputable) sent.value = e.loaded / e.total; };
  request.onload = () => {
    if (request.status < 300) { location.href = request.responseURL; return; }
    const page = new DOMParser().parseFromString(request.responseText, "text/html");
    show(page.querySelector(".message")?.textContent ?? `${form.dataset.answered} ${request.status}`);
  };
  request.onerror = () => show(form.dataset.lost);
  request.open("POST", form.action);
  request.send(new FormData(form));

  function show(text) {
    button.disabled = false;
    sent.hidden = true;
    let message = document.querySelector(".message");
    if (!message) {
      message = document.createElement("p");
      message.className = "message";
      message.setAttribute("role", "alert");
      document.querySelector("main").prepend(message);
    }
    message.textContent = text;
  }
});
