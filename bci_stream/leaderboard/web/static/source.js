// Where the page gets its data: from the judge, or, in a published copy, from files beside it.

export const isPublished = "published" in document.documentElement.dataset;

export function addressOf(name) {
  return isPublished ? `api/${name}.json` : `/api/v1/${name}`;
}
