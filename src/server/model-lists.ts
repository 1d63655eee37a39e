/** Asks an upstream for its list of models, whatever it speaks: for the command that adds it, and for what a server here has loaded. */

import type { ListedModel } from '../domain/model-server.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import { isServiceAccount } from '../upstreams/auth.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import { askModels, type Send } from '../upstreams/model-list.ts'

/** Throws `list_failed`. */
export async function listModels(upstream: Upstream, send?: Send): Promise<ListedModel[]> {
  if (upstream.notReady !== null)
    throw new ServiceError(
      { kind: 'list_failed', why: 'credential' },
      `The upstream ${upstream.id} cannot be asked: ${upstream.notReady}.`,
    )
  const { load } = dialectOf(upstream)
  if (load === null)
    throw new ServiceError({ kind: 'list_failed', why: 'none' }, 'The demo has one model, which is there already.')
  if (isServiceAccount(upstream))
    throw new ServiceError(
      { kind: 'list_failed', why: 'none' },
      'Vertex has no list of models for a service account. Name the models instead, with --models NAME for each.',
    )
  return askModels(await load(), upstream, send ? { send } : {})
}
