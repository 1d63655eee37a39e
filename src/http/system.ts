/**
 * Chat and the list of models for whoever owns the data folder. They come over the control socket, which nobody else can open,
 * and need no key. What they ask is on record like any request, under the id `system`, which no key has.
 */
import { Elysia } from 'elysia'
import type { Key } from '../domain/snapshot.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import { chatController } from './chat.ts'
import type { Listener } from './instance.ts'
import { type ModelsDeps, modelsController } from './models.ts'

/** Who could make a key of any kind is held to no limit. */
const SYSTEM: Key = {
  id: 'system',
  name: 'system',
  scope: 'all',
  teamId: null,
  expiresMs: null,
  revokedMs: null,
  ownerId: null,
  shareId: 'system',
  models: [],
  allowedIps: [],
  limits: { requestsPerMinute: null, tokensPerMinute: null, concurrency: null },
  budget: null,
}

/** Nobody comes over the network. */
const nowhere = () => null

/** Serves `/system/v1/chat/completions` and `/system/v1/models`. @param app the instance that listens on the socket. */
export const systemController = (deps: HandleDeps & ModelsDeps, app: Listener) =>
  new Elysia({ name: 'system', prefix: '/system' })
    .use(chatController(deps, app, nowhere, SYSTEM))
    .use(modelsController(deps, nowhere, SYSTEM))
