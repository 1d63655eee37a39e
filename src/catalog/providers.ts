/**
 * Who `upstreams add` knows by name: the presets, and of the known facts those providers whose address and format they have. Pure.
 */

import type { DialectName, UpstreamSettings } from '../domain/dialects.ts'
import { ServiceError } from '../domain/service-error.ts'
import { allPresets, type Preset } from '../store/presets.ts'
import { quote } from '../validation/explain.ts'
import { closest } from './entry.ts'
import type { KnownProvider, KnownProviders } from './known.ts'

export interface Provider {
  /** What it is asked for by. */
  id: string
  /** As it calls itself. */
  name: string
  dialect: DialectName
  /** Null where each customer has another one. */
  baseUrl: string | null
  /** What such an address looks like. */
  example: string | null
  /** Variables that its credential may stand in, the usual one first. */
  variables: string[]
  /** Its name among the known facts. */
  known: string
  /** The first part of the slugs of models whose name says no maker. */
  vendor: string
  /** What its list of models is worth; null = it has the names of those that it serves, and no prices that count. */
  modelList: Preset['model_list'] | null
  options: UpstreamSettings
  /** Whether it is a server of one's own. */
  local: boolean
}

/** Presets that models.dev has under another name, and those that serve the models of one maker alone. */
const ALSO: Readonly<Record<string, { known: string; vendor?: string }>> = {
  'azure-deployments': { known: 'azure' },
  bedrock: { known: 'amazon-bedrock' },
  vertex: { known: 'google-vertex' },
  'vertex-gemini': { known: 'google-vertex', vendor: 'google' },
  together: { known: 'togetherai' },
  fireworks: { known: 'fireworks-ai' },
  moonshot: { known: 'moonshotai' },
  qwen: { known: 'alibaba' },
}

/** Throws `provider_unknown`, with the name that may have been meant. */
export function findProvider(known: KnownProviders, id: string): Provider {
  const all = allProviders(known)
  const found = all.find((one) => one.id === id) ?? all.find((one) => one.known === id)
  if (found) return found
  const names = all.map((one) => one.id)
  throw new ServiceError(
    { kind: 'provider_unknown' },
    `No provider ${quote(id)} is known${closest(id, names)}. Any that speaks the format of OpenAI is added by its address: tollgate upstreams add --name NAME --base-url https://…/v1. Known by name are: ${names.join(', ')}.`,
  )
}

/** The known provider at whose host an address is; null where nobody is. Anything may be at one of this machine's ports. */
export function findByAddress(known: KnownProviders, baseUrl: string): Provider | null {
  const hostOf = (text: string | null) => (text === null ? null : (URL.parse(text)?.host ?? null))
  const host = hostOf(baseUrl)
  return allProviders(known).find((one) => host !== null && !one.local && hostOf(one.baseUrl) === host) ?? null
}

/** The presets first. */
function allProviders(known: KnownProviders): Provider[] {
  const presets = Object.entries(allPresets()).map(([id, preset]) => toPresetProvider(known, id, preset))
  const taken = new Set(presets.map((one) => one.known))
  const others = Object.entries(known).flatMap(([id, one]) => (taken.has(id) ? [] : (toKnownProvider(id, one) ?? [])))
  return [...presets, ...others]
}

function toPresetProvider(known: KnownProviders, id: string, preset: Preset): Provider {
  const name = ALSO[id]?.known ?? id
  const more = Object.hasOwn(known, name) ? (known[name]?.env ?? []).filter(isSecret) : []
  return {
    ...{
      id,
      name: preset.name,
      dialect: preset.dialect,
      known: name,
      vendor: preset.local ? 'local' : (ALSO[id]?.vendor ?? id),
    },
    ...{ baseUrl: preset.base_url ?? null, example: preset.example ?? null, options: { preset: id } },
    ...{
      modelList: preset.model_list ?? null,
      variables: [...new Set([...(preset.env ? [preset.env] : []), ...more])],
    },
    local: preset.local === true,
  }
}

/** The list of known facts has other variables, too, such as regions. */
const isSecret = (variable: string) => /(KEY|TOKEN)$/.test(variable)

function toKnownProvider(id: string, { api, npm, name = id, env = [] }: KnownProvider): Provider | null {
  // Some addresses have a part that each customer fills in.
  if (!api || api.includes('$')) return null
  return {
    ...{ id, name, dialect: npm === '@ai-sdk/anthropic' ? 'anthropic' : 'openai', known: id, vendor: id },
    ...{ baseUrl: api.replace(/\/+$/, ''), example: null, options: {} },
    ...{ modelList: null, variables: env.filter(isSecret) },
    local: false,
  }
}
