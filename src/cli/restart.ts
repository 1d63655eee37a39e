/** `tollgate restart` and `tollgate reload`: apply changes to the running server without interrupting requests. */
import type { Command } from 'commander'
import { orderReload, orderRestart } from './control-client.ts'
import { type Context, printJson, toExamples } from './io.ts'

export function addRestart(command: Command, context: Context): void {
  command
    .argument('[flags...]', 'flags of tollgate serve, after `--`; default: those of the running server')
    .option(
      '--environment',
      "start the new server with this command's environment, not with that of the running server",
    )
    .addHelpText('after', toExamples('restart', 'restart -- --port 4000 --max-in-flight 2000'))
    .action(async (flags: string[], { environment }: { environment?: true }) => {
      const given = environment
        ? Object.entries(context.environment).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
        : null
      const restarted = await orderRestart(context.dataFolder, {
        flags: flags.length > 0 ? flags : null,
        environment: given && Object.fromEntries(given),
      })
      if (context.json) return printJson(context, restarted)
      const { url, version, pid } = restarted
      context.stdout(
        `Restarted: version ${version} serves ${url} as process ${pid}. The previous one finishes its requests.\n`,
      )
    })
}

export function addReload(command: Command, context: Context): void {
  command.addHelpText('after', toExamples('reload', 'reload --json')).action(async () => {
    const { needs_restart: needs } = await orderReload(context.dataFolder)
    if (context.json) return printJson(context, { reloaded: true, needs_restart: needs })
    const waiting = [...needs.settings.map((name) => `--${name}`), ...needs.variables]
    const rest =
      waiting.length === 0 ? '' : ` These changes need a restart: ${waiting.join(', ')}. Run: tollgate restart`
    context.stdout(`Applied the catalog, credential files, and certificates again.${rest}\n`)
  })
}
