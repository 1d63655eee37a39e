/**
 * Provider settings from `presets.yaml`, in the terms of `catalog.yaml`, with their sources. They are defaults for upstreams that name the preset. Read on
 * first use, since most starts need none.
 */
import { readFileSync } from 'node:fs'
import type { DialectName, UpstreamSettings } from '../domain/dialects.ts'
import presetsPath from './presets.yaml' with { type: 'file' }

export interface Preset {
  /** The provider's display name. */
  name: string
  dialect: DialectName
  /** Absent if each customer has their own. */
  base_url?: string
  /** Example of such a URL. */
  example?: string
  /** Variable that the provider's own libraries use; absent if usually none is needed. */
  env?: string
  /** True for local servers, which are free. */
  local?: true
  /**
   * What its model list means, if not just the models it serves: `with_prices`: includes prices in USD per token; `not_deployed`: models that can be deployed
   * there, under other names.
   */
  model_list?: 'with_prices' | 'not_deployed'
  settings: Omit<UpstreamSettings, 'preset'>
  /** Public pages, with the date they were read (`2026-11-23`) and the settings they document. */
  sources: Record<string, { read: string; says: string[] }>
  /** Settings that no page documents: what every server of the format accepts. */
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
