// Lists come in pages; this reads them to the end, or to a bound.

export interface PageQuery {
  limit: number;
  cursor?: string;
}

interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

const PAGE = 200;

export async function readAll<T>(read: (query: PageQuery) => Promise<Page<T>>, bound = 2_000): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null = null;
  do {
    const page: Page<T> = await read({ limit: PAGE, ...(cursor && { cursor }) });
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && items.length < bound);
  return items;
}
