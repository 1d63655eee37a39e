/**
 * What is particular about providers, as they publish it: `presets.yaml`, in the words of `catalog.yaml`, each with the pages that
 * say so. An upstream that names one of them has its settings wherever it says nothing itself. The file is read when a first one is
 * named: most starts name none.
 */
import { readFileSync } from 'node:fs'
import type { DialectName, UpstreamSettings } from '../domain/dialects.ts'
import presetsPath from './presets.yaml' with { type: 'file' }

export interface Preset {
  /** As its provider calls itself. */
  name: string
  dialect: DialectName
  /** Left out where each customer has another one. */
  base_url?: string
  /** What such an address looks like. */
  example?: string
  /** The variable that its own libraries read the credential from; left out where it mostly needs none. */
  env?: string
  /** Whether it is a server of one's own, which costs nothing: whoever adds it by name has it so. */
  local?: true
  /**
   * What its list of models is worth, where that is not just the names of those that it serves: `with_prices` = what they cost, too, in
   * USD per token; `not_deployed` = what may be deployed there, whether it is or not, and under other names.
   */
  model_list?: 'with_prices' | 'not_deployed'
  settings: Omit<UpstreamSettings, 'preset'>
  /** Public pages, when each was read (`2026-11-23`), and which of the above it says. */
  sources: Record<string, { read: string; says: string[] }>
  /** Which of them no page says: what every server of the format takes. */
  cautious?: string[]
}

let read: Readonly<Record<string, Preset>> | null = null

/** All of them, by their names. */
export function allPresets(): Readonly<Record<string, Preset>> {
  read ??= Bun.YAML.parse(readFileSync(presetsPath, 'utf8')) as Record<string, Preset>
  return read
}

/** Undefined where there is none of this name. */
export function findPreset(name: string): Preset | undefined {
  const presets = allPresets()
  return Object.hasOwn(presets, name) ? presets[name] : undefined
}
