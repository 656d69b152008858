// A piece of this page as the server makes it now; null when it does not answer, or asks to log in.
export async function fragment(name, query = location.search) {
  const url = new URL(location.pathname, location.href);
  url.search = query;
  url.searchParams.set("fragment", name);
  const answer = await fetch(url, {signal: AbortSignal.timeout(10000)}).catch(() => null);
  if (!answer?.ok || answer.redirected) return null;
  return new DOMParser().parseFromString(await answer.text(), "text/html").body;
}
