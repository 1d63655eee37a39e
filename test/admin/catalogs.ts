/** Catalogues as the owner of a data folder would apply them, for the tests of `admin/`. */
import { applyCatalog } from '../../src/catalog/apply.ts'
import { parseCatalog } from '../../src/catalog/file.ts'
import type { Fixture } from './fixture.ts'

/** Applies a file, and has the server take it in. */
export async function applyText({ store, serving, clock }: Fixture, text: string): Promise<void> {
  const { catalog } = await parseCatalog(text, { name: 'catalog.yaml', environment: {} })
  await applyCatalog(store, catalog, {
    ...{ origin: 'file', subject: '/srv/catalog.yaml', digest: text, prune: true },
    ...{ actor: 'cli', nowMs: clock.ms },
  })
  await serving.refresh()
}
