/** Asks an upstream for its list of models, whatever it speaks: for the command that adds it, and for what a server here has loaded. */

import type { DialectName } from '../domain/dialects.ts'
import type { ListedModel } from '../domain/model-server.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Upstream } from '../domain/snapshot.ts'
import type { Dialect } from '../upstreams/backend.ts'
import { isServiceAccount } from '../upstreams/google/credential.ts'
import { askModels, type Send } from '../upstreams/model-list.ts'

const BY_NAME: Readonly<Record<Exclude<DialectName, 'demo'>, () => Promise<Dialect>>> = {
  openai: async () => (await import('../upstreams/dialects/openai/openai.ts')).openai,
  anthropic: async () => (await import('../upstreams/dialects/anthropic/anthropic.ts')).anthropic,
  gemini: async () => (await import('../upstreams/dialects/gemini/gemini.ts')).gemini,
  ollama: async () => (await import('../upstreams/dialects/ollama/ollama.ts')).ollama,
}

/** Throws `list_failed`. */
export async function listModels(upstream: Upstream, send?: Send): Promise<ListedModel[]> {
  if (upstream.notReady !== null)
    throw new ServiceError(
      { kind: 'list_failed', why: 'credential' },
      `The upstream ${upstream.id} cannot be asked: ${upstream.notReady}.`,
    )
  if (upstream.dialect === 'demo')
    throw new ServiceError({ kind: 'list_failed', why: 'none' }, 'The demo has one model, which is there already.')
  if (isServiceAccount(upstream))
    throw new ServiceError(
      { kind: 'list_failed', why: 'none' },
      'Vertex has no list of models for a service account. Name the models instead, with --models NAME for each.',
    )
  return askModels(await BY_NAME[upstream.dialect](), upstream, send ? { send } : {})
}
