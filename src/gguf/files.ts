/**
 * Finds the files of a model where somebody points: all parts of one that is in several, and the projector by which it reads pictures
 * or sound. Reads their headers and nothing else of them. Throws DamagedModel with a whole sentence.
 */
import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../domain/error.ts'
import { type ByteSource, DamagedModel } from './cursor.ts'
import { type GgufFacts, toFacts } from './facts.ts'
import { readHeader } from './header.ts'

export interface ModelFiles {
  /** The file that an engine is given: of several parts, the first. */
  path: string
  facts: GgufFacts
  /** The number of its files. */
  parts: number
  /** Of all of them, with the projector. */
  bytes: number
  projector: { path: string; reads: GgufFacts['reads'] } | null
  /** Projectors that lie beside it and are not used. */
  otherProjectors: string[]
}

/** @param path full, of a file or a folder. @param projector full path of the one to use, if one was named. */
export function findModelFiles(path: string, projector: string | null): ModelFiles {
  const isFolder = statOf(path).isDirectory()
  const beside = listModels(isFolder ? path : dirname(path))
  const projectors = beside.filter((file) => isProjector(file))
  const model = isFolder
    ? pickModel(
        path,
        beside.filter((file) => !projectors.includes(file)),
      )
    : toFirstPart(path)
  const facts = readFacts(model)
  requireChat(model, facts)
  const parts = listParts(model, facts)
  // In a folder of its own, what lies beside a model is for it.
  const own = projector ?? (isFolder && projectors.length === 1 ? (projectors[0] ?? null) : null)
  return {
    ...{ path: model, facts, parts: parts.length },
    bytes: [...parts, ...(own === null ? [] : [own])].reduce((sum, part) => sum + statOf(part).size, 0),
    projector: own === null ? null : readProjector(own),
    otherProjectors: own === null ? projectors.map((file) => basename(file)) : [],
  }
}

/** Reads what a file says of itself. */
export function readFacts(path: string): GgufFacts {
  // A pipe would be waited for, for ever.
  if (!statOf(path).isFile()) throw new DamagedModel(`${path} is no file, but a device or the like.`)
  const file = open(path)
  try {
    const { size } = fstatSync(file)
    const source: ByteSource = {
      size,
      read(offset, length) {
        const bytes = new Uint8Array(length)
        return bytes.subarray(0, readSync(file, bytes, 0, length, offset))
      },
    }
    return toFacts(readHeader(source))
  } catch (error) {
    throw error instanceof DamagedModel ? new DamagedModel(`${path} ${error.message}.`) : error
  } finally {
    closeSync(file)
  }
}

const PART = /-(\d{5})-of-(\d{5})\.gguf$/

/** Any part stands for all of them. */
const toFirstPart = (path: string) => path.replace(PART, '-00001-of-$2.gguf')

function listParts(first: string, { shard }: GgufFacts): string[] {
  const count = Number(PART.exec(first)?.[2] ?? 1)
  if (shard && shard.count !== count)
    throw new DamagedModel(
      `${first} is one of ${shard.count} parts, and its name does not say so: an engine finds the others by names such as MODEL-00001-of-${String(shard.count).padStart(5, '0')}.gguf.`,
    )
  const paths = Array.from({ length: count }, (_, index) =>
    first.replace(PART, `-${String(index + 1).padStart(5, '0')}-of-$2.gguf`),
  )
  const missing = paths.filter((path) => statSync(path, { throwIfNoEntry: false }) === undefined)
  if (missing.length > 0)
    throw new DamagedModel(
      `${first} has ${count} parts, and ${missing.map((path) => basename(path)).join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing: download ${missing.length === 1 ? 'it' : 'them'} into the same folder.`,
    )
  for (const path of paths.slice(1)) readFacts(path)
  return paths
}

const listModels = (folder: string) =>
  readdirSync(folder)
    .filter((name) => /\.gguf$/i.test(name))
    .toSorted()
    .map((name) => join(folder, name))

const isProjector = (path: string) => /mmproj/i.test(basename(path))

function pickModel(folder: string, files: readonly string[]): string {
  const models = [...new Set(files.map(toFirstPart))]
  const [first] = models
  if (first === undefined) throw new DamagedModel(`There is no model in ${folder}: no file there ends in .gguf.`)
  if (models.length > 1)
    throw new DamagedModel(
      `There are ${models.length} models in ${folder}: name one of ${models.map((path) => basename(path)).join(', ')}.`,
    )
  return first
}

function requireChat(path: string, { kind, hasTokenizer }: GgufFacts): void {
  if (kind === 'projector')
    throw new DamagedModel(
      `${path} only reads pictures or sound for another model: name that one, with --mmproj ${path}.`,
    )
  if (kind === 'reranker')
    throw new DamagedModel(`${path} only puts texts in order, which nothing can be asked for here.`)
  if (!hasTokenizer)
    throw new DamagedModel(`${path} has no tokenizer, without which no engine serves it: convert it again.`)
}

function readProjector(path: string): { path: string; reads: GgufFacts['reads'] } {
  const { kind, reads } = readFacts(path)
  if (kind !== 'projector')
    throw new DamagedModel(`${path} is a model itself, and nothing by which another one reads pictures.`)
  return { path, reads }
}

function statOf(path: string) {
  try {
    return statSync(path)
  } catch (error) {
    throw toUnreadable(path, error)
  }
}

function open(path: string): number {
  try {
    return openSync(path, 'r')
  } catch (error) {
    throw toUnreadable(path, error)
  }
}

const toUnreadable = (path: string, error: unknown) =>
  new DamagedModel(
    codeOf(error) === 'ENOENT'
      ? `There is no file ${path}.`
      : `${path} cannot be read (${codeOf(error) || 'unknown reason'}): correct who may read it.`,
  )
