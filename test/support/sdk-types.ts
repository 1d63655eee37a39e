/**
 * Inspects the official clients' types with TypeScript's checker: a request's fields and `type` values, an answer's
 * required fields.
 */
import { join } from 'node:path'
import { API, type Checker, type Symbol as Property, SymbolFlags, type Type } from 'typescript/unstable/async'

const ROOT = join(import.meta.dir, '../..')

/** Names, each with one path where it occurs. */
export interface Reached {
  fields: string[]
  /** Fields at any depth below. */
  within: ReadonlyMap<string, string>
  /** `type` values at any depth, with their paths. */
  types: ReadonlyMap<string, readonly string[]>
}

export interface SdkTypes {
  reach(request: string): Promise<Reached>
  /** Paths of required fields that are missing, or null against their type. */
  lacks(answer: string, value: unknown): Promise<string[]>
  close(): Promise<void>
}

export async function openSdkTypes(): Promise<SdkTypes> {
  const api = new API({ cwd: ROOT })
  const snapshot = await api.updateSnapshot({ openProject: join(ROOT, 'tsconfig.json') })
  const [project] = snapshot.getProjects()
  const file = await project?.program.getSourceFile(join(import.meta.dir, 'sdk-shapes.ts'))
  const shapes = file && (await project?.checker.getSymbolAtLocation(file))
  if (!project || !shapes) throw new Error('the types of the client libraries are not part of the project')
  const reader = new Reader(project.checker)
  const shapeOf = async (of: string, name: string) => {
    const shape = (await project.checker.getExportsOfModule(shapes)).find((each) => each.name === of)
    const members = shape ? await reader.membersOf(await project.checker.getDeclaredTypeOfSymbol(shape)) : []
    const found = members.find((member) => member.name === name)
    if (!found) throw new Error(`sdk-shapes.ts has no ${of}.${name}`)
    return found.type
  }
  return {
    reach: async (request) => reader.reach(await shapeOf('Requests', request)),
    lacks: async (answer, value) => reader.lacks(await shapeOf('Answers', answer), value, ''),
    close: () => api.close(),
  }
}

interface Member {
  name: string
  type: Type
  isOptional: boolean
}

class Reader {
  readonly #checker: Checker
  readonly #members = new Map<number, Promise<Member[]>>()

  constructor(checker: Checker) {
    this.#checker = checker
  }

  membersOf(type: Type): Promise<Member[]> {
    return this.#members.getOrInsertComputed(type.id, () => this.#readMembers(type))
  }

  async #readMembers(type: Type): Promise<Member[]> {
    const properties = await this.#checker.getPropertiesOfType(type)
    return Promise.all(properties.map((property) => this.#toMember(property)))
  }

  async #toMember(property: Property): Promise<Member> {
    const type = await this.#checker.getTypeOfSymbol(property)
    if (!type) throw new Error(`${property.name} has no type`)
    return { name: property.name, type, isOptional: (property.flags & SymbolFlags.Optional) !== 0 }
  }

  async #kindsOf(type: Type): Promise<readonly Type[]> {
    return type.isUnionType() ? ((await type.getTypes()) ?? []) : [type]
  }

  async reach(request: Type): Promise<Reached> {
    const within = new Map<string, string>()
    const types = new Map<string, string[]>()
    const seen = new Set<number>([request.id])
    const walk = async (type: Type, path: string): Promise<void> => {
      for (const kind of await this.#kindsOf(type)) {
        if (!kind.isObjectType() || seen.has(kind.id)) continue
        seen.add(kind.id)
        if (await this.#checker.isArrayType(kind)) {
          for (const item of await this.#checker.getTypeArguments(kind as never)) await walk(item, `${path}[]`)
          continue
        }
        for (const { name, type: held } of await this.membersOf(kind)) {
          within.getOrInsert(name, `${path}.${name}`)
          if (name === 'type')
            for (const word of await this.#kindsOf(held))
              if (word.isStringLiteralType()) types.getOrInsertComputed(String(word.value), () => []).push(path)
          await walk(held, `${path}.${name}`)
        }
      }
    }
    const fields = await this.membersOf(request)
    for (const { name, type } of fields) await walk(type, name)
    return { fields: fields.map(({ name }) => name), within, types }
  }

  async lacks(type: Type, value: unknown, path: string): Promise<string[]> {
    const kinds = await this.#kindsOf(type)
    if (value === null)
      return kinds.some((kind) => isNamed(kind, 'null') || isNamed(kind, 'unknown')) ? [] : [`${path} is null`]
    if (typeof value !== 'object') return []
    const objects = kinds.filter((kind) => kind.isObjectType())
    // A union counts as the member that fits best.
    let fewest: string[] | null = null
    for (const kind of objects) {
      const lacking = await this.#lacksOne(kind, value, path)
      if (lacking !== null && (fewest === null || lacking.length < fewest.length)) fewest = lacking
    }
    return fewest ?? (objects.length === 0 ? [] : [`${path} is of no known kind`])
  }

  /** Null if the value declares another kind. */
  async #lacksOne(kind: Type, value: object, path: string): Promise<string[] | null> {
    if (await this.#checker.isArrayType(kind)) {
      if (!Array.isArray(value)) return null
      const [item] = await this.#checker.getTypeArguments(kind as never)
      const found = await Promise.all(value.map((each, at) => (item ? this.lacks(item, each, `${path}[${at}]`) : [])))
      return found.flat()
    }
    if (Array.isArray(value)) return null
    const lacking: string[] = []
    for (const { name, type, isOptional } of await this.membersOf(kind)) {
      const held: unknown = Reflect.get(value, name)
      if (type.isStringLiteralType() && typeof held === 'string' && held !== type.value) return null
      if (held === null && isOptional) continue
      if (held !== undefined) lacking.push(...(await this.lacks(type, held, `${path}.${name}`)))
      else if (!isOptional) lacking.push(`${path}.${name}`)
    }
    return lacking
  }
}

const isNamed = (type: Type, name: string) => type.isIntrinsicType() && type.intrinsicName === name
