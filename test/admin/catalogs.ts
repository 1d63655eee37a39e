/** Catalogs as the data folder's owner would apply them. */
import { applyCatalog } from '../../src/catalog/apply.ts'
import { parseCatalog } from '../../src/catalog/file.ts'
import type { Origin } from '../../src/domain/models.ts'
import type { Fixture } from './fixture.ts'

/** Applies the catalog, and waits until the server has read it. */
export async function applyText(
  { store, serving, clock }: Fixture,
  text: string,
  origin: Origin = 'file',
): Promise<void> {
  const { catalog } = await parseCatalog(text, { name: 'catalog.yaml', environment: {} })
  await applyCatalog(store, catalog, {
    ...{ origin, subject: '/srv/catalog.yaml', digest: text, prune: true },
    ...{ actor: 'cli', nowMs: clock.ms },
  })
  await serving.refresh()
}
