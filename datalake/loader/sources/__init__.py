"""What a loader can stream. numpy only, so that workers need no torch to read.

source      `Source`: what every one of them does
utterances  `Utterances`: speech; cutting: clips to one array; kept: decoded clips in the cache
windows     `EpisodeWindows`: robots, around any frame; episodes: `Episodes`, whole ones
rows        `Rows`: columns as they are; columns: by type
naming      tables and selections by name; rows that make no example
"""
