/** Provider settings from `presets.yaml`, as defaults for upstreams. Read on first use, since most starts need none. */
import { readFileSync } from 'node:fs'
import type { DialectName, UpstreamSettings } from '../domain/dialects.ts'
import presetsPath from './presets.yaml' with { type: 'file' }

export interface Preset {
  name: string
  /** Its models, in a few words. */
  serves: string
  dialect: DialectName
  /** Absent if each customer has their own. */
  base_url?: string
  example?: string
  /** Environment variable used by the provider's libraries; absent if not needed. */
  env?: string
  /** Free. */
  local?: true
  /** `with_prices`: includes USD per token; `not_deployed`: models that can be deployed under other names. */
  model_list?: 'with_prices' | 'not_deployed'
  settings: Omit<UpstreamSettings, 'preset'>
  /** Public pages, with the date of reading (`2026-11-23`) and the documented settings. */
  sources: Record<string, { read: string; says: string[] }>
  /** Settings that no page documents, but every server of the format accepts. */
  cautious?: string[]
}

let read: Readonly<Record<string, Preset>> | null = null

export function allPresets(): Readonly<Record<string, Preset>> {
  read ??= Bun.YAML.parse(readFileSync(presetsPath, 'utf8')) as Record<string, Preset>
  return read
}

export function findPreset(name: string): Preset | undefined {
  const presets = allPresets()
  return Object.hasOwn(presets, name) ? presets[name] : undefined
}
