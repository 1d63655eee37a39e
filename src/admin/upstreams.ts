/** Upstreams, as the commands list and test them: `/admin/api/upstreams`. A credential is in no answer. */
import { Elysia } from 'elysia'
import { findUpstream } from '../catalog/find.ts'
import { toUpstreamDocuments } from '../documents/upstream.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'

export function upstreamsController({ store, vault, serving }: AdminDeps) {
  const toDocuments = async (rows: readonly UpstreamRow[]) =>
    toUpstreamDocuments(rows, await vault.open(await store.readSealed()), serving.upstreams())

  return new Elysia({ name: 'upstreams' })
    .use(access())
    .get('/upstreams', async () => ({ upstreams: await toDocuments((await store.readCatalog()).upstreams) }), {
      least: 'viewer',
    })
    .get(
      '/upstreams/:id',
      async ({ params: { id } }) => {
        const { upstreams } = await store.readCatalog()
        const row = findUpstream({ upstreams }, id)
        return (await toDocuments([row]))[0]
      },
      { least: 'viewer' },
    )
    .post(
      '/upstreams/:id/test',
      async ({ params: { id } }) => {
        const result = await serving.test(id)
        if (result) return result
        findUpstream(await store.readCatalog(), id)
        throw new ServiceError(
          { kind: 'upstream_disabled', upstream: id },
          `The upstream ${id} is disabled: nothing is sent to it.`,
        )
      },
      { least: 'editor' },
    )
}
