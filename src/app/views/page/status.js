"use strict";
// Fetches the page each second and sets what has changed in this one, so that a selection, an open
// explanation and the place on the page stay. The server renders everything, once.
(() => {
  const age = document.getElementById("age");
  let taken = Date.now();
  let timer = 0;

  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.id === b.id;

  function patch_attributes(old, next) {
    for (const { name, value } of [...next.attributes]) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (name !== "open" && !next.hasAttribute(name)) old.removeAttribute(name);
    }
  }

  function patch(old, next) {
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== next.data) old.data = next.data;
      return;
    }
    patch_attributes(old, next);
    const before = [...old.childNodes];
    const after = [...next.childNodes];
    after.forEach((child, i) => {
      if (i >= before.length) old.append(document.importNode(child, true));
      else if (alike(before[i], child)) patch(before[i], child);
      else before[i].replaceWith(document.importNode(child, true));
    });
    before.slice(after.length).forEach((child) => child.remove());
  }

  function tell_age() {
    const seconds = Math.round((Date.now() - taken) / 1000);
    age.textContent = seconds < 3 ? "live" : `figures are ${seconds} s old`;
    age.className = seconds < 10 ? "" : "old";
  }

  async function look() {
    clearTimeout(timer);
    try {
      const answer = await fetch(location.pathname + location.search, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      patch(document.querySelector("main"), next.querySelector("main"));
      taken = Date.now();
    } catch (error) {
      console.warn(`mongo-idproxy does not answer: ${error.message}`);
    }
    tell_age();
    timer = setTimeout(look, document.hidden ? 5000 : 1000);
  }

  setInterval(tell_age, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
  look();
})();
