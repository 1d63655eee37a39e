/** `GET /v1/models` and `GET /v1/models/<vendor>/<model_name>`: what the calling key may use, and nothing else. */
import { Elysia } from 'elysia'
import { toPublicModel } from '../catalog/public.ts'
import { GatewayError } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import type { Model } from '../domain/settings.ts'
import type { Key, Snapshot } from '../domain/snapshot.ts'
import type { RequestHeaders } from '../gateway/intake.ts'
import type { Health } from '../health/health.ts'
import { authenticate, toToken } from '../keys/token.ts'
import type { Log } from '../log.ts'
import { modelNotFound, visibleModel } from '../routing/route.ts'
import { bearerToken, pathOf } from './instance.ts'

export interface ModelsDeps {
  live: { readonly snapshot: Snapshot }
  health: Pick<Health, 'forRequest'>
  log: Log
  now(): number
}

/** @param owner who asks, where that needs no proof. */
export const modelsController = (deps: ModelsDeps, owner: Key | null = null) => {
  const keyOf = (headers: RequestHeaders, bearer: string | undefined): Key => {
    const key = owner ?? authenticate(deps.live.snapshot, toToken(bearer, headers.authorization), deps.now())
    if (key instanceof GatewayError) throw key
    return key
  }
  const reply = (key: Key, body: unknown) => {
    const id = mintId(deps.now())
    deps.log.info('models_listed', 'models', { id, key: key.id, http: 200 })
    return Response.json(body, { headers: { 'x-request-id': toRequestId(id) } })
  }

  return new Elysia({ name: 'models' })
    .use(bearerToken())
    .get('/v1/models', ({ headers, bearer }) => {
      const key = keyOf(headers, bearer)
      const data = [...deps.live.snapshot.models]
        .filter(([, { listed }]) => listed)
        .map(([slug]) => slug)
        .sort()
        .flatMap((slug) => modelFor(deps, key, slug) ?? [])
      return reply(key, { object: 'list', data })
    })
    .get('/v1/models/*', ({ request, headers, bearer }) => {
      const key = keyOf(headers, bearer)
      // The slash of a slug may arrive raw or as %2F, and the router's own parameter is not decoded.
      const asked = decode(pathOf(request).replace(/^.*?\/v1\/models\//, ''))
      const model = modelFor(deps, key, asked)
      if (!model) throw modelNotFound(asked, null)
      return reply(key, model)
    })
}

function modelFor({ live, health }: ModelsDeps, key: Key, slug: string): Model | null {
  const visible = visibleModel(live.snapshot, key, slug)
  if (!visible) return null
  const request = health.forRequest(key.id)
  return toPublicModel(visible.model, visible.targets, (target) => request.standing(target) === 'unavailable')
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
